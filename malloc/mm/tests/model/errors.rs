//! Errors of writeback: two tasks record errors while two other tasks ask for them.

use quarry_cache::page_cache::ErrorSequence;
use quarry_sys::primitive::{AtomicU32, Ordering::SeqCst};

/// Each of two flushers is told of an error at the latest when it asks after both errors were
/// recorded. In all, no flusher is told more than twice, once for each error.
fn every_flusher_is_told() {
    let (errors, told) = (ErrorSequence::default(), AtomicU32::new(0));
    let ask = |cursor: &mut _| {
        let news = errors.advance(cursor);
        assert!(matches!(news, None | Some(5 | 28)), "{news:?} was recorded by nobody");
        told.fetch_add(u32::from(news.is_some()), SeqCst);
        news
    };
    let (mut first, mut second) = (errors.cursor(), errors.cursor());
    shuttle::thread::scope(|scope| {
        scope.spawn(|| errors.record(5));
        scope.spawn(|| errors.record(28));
        scope.spawn(|| ask(&mut first));
        ask(&mut second);
    });
    ask(&mut first);
    ask(&mut second);
    let told = told.load(SeqCst);
    assert!((2..=4).contains(&told), "two errors were told {told} times to two flushers");
    assert_eq!((ask(&mut first), ask(&mut second)), (None, None), "each error once");
}

#[test]
fn each_error_reaches_each_flusher_once() {
    super::explore(2000, every_flusher_is_told);
}
