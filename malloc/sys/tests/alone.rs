//! A process with one thread, and the locks that its second thread finds. Built without the usual
//! test harness, which would start threads.

use quarry_sys::glibc::is_single_threaded;
use quarry_sys::local;
use quarry_sys::lock::CountedLock;
use std::sync::atomic::{AtomicU64, Ordering};

fn main() {
    // cargo-nextest lists the tests by `--list`, and the ignored ones by `--ignored` as well.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|it| it == "--list") {
        if !arguments.iter().any(|it| it == "--ignored") {
            println!("alone: test");
        }
        return;
    }
    assert!(is_single_threaded() || cfg!(any(miri, quarry_model, not(target_env = "gnu"))));
    words_are_exchanged_only_if_they_are_what_was_seen();
    the_second_thread_finds_locks_as_the_first_left_them();
    assert!(!is_single_threaded());
    words_are_exchanged_only_if_they_are_what_was_seen();
    the_second_thread_finds_locks_as_the_first_left_them();
    println!("alone: passed");
}

fn the_second_thread_finds_locks_as_the_first_left_them() {
    let lock = CountedLock::new(0);
    *lock.lock() += 1;
    let held = lock.lock();
    assert!(lock.try_lock().is_none(), "taken twice");
    drop(held);
    *lock.try_lock().expect("it is free") += 1;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..10_000).for_each(|_| *lock.lock() += 1));
        }
    });
    *lock.lock() += 1;
    assert_eq!(*lock.lock(), 20_003);
    assert_eq!(lock.stats().acquisitions, 20_005);
    assert!(lock.stats().contentions > 0, "a refusal counts");
}

fn words_are_exchanged_only_if_they_are_what_was_seen() {
    let word = AtomicU64::new(7);
    assert!(!local::compare_exchange(&word, 8, 9));
    assert_eq!(word.load(Ordering::Relaxed), 7);
    assert!(local::compare_exchange(&word, 7, u64::MAX));
    assert_eq!(word.load(Ordering::Relaxed), u64::MAX);
    local::add(&word, 3);
    assert_eq!(word.load(Ordering::Relaxed), 2);
    local::add_shared(&word, 3);
    assert_eq!(word.load(Ordering::Relaxed), 5);
}
