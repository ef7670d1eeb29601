//! Models of single policies, and planted bugs, which the models must find.

use crate::exploring::is_found_out;
use crate::policies::{Play, draining, size_for, trading};
use crate::{explore_at_most, runs};
use quarry_mm::slab::{Sheaf, Slam};
use quarry_sys::percpu::PlantedBug;
use shuttle::sync::Arc;
use shuttle::thread;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Objects of one burst: more than an array holds.
const BURST: usize = 20;

/// One thread works in bursts, one leaves objects that another one frees, and a fourth one shrinks
/// the cache. So CPUs of `slam` change their modes while others push to inboxes and take from them.
fn changing() {
    let play = Arc::new(Play::<Slam>::new(size_for("slam"), PlantedBug::None));
    let start = |work: fn(&Play<Slam>)| {
        let play = Arc::clone(&play);
        thread::spawn(move || work(&play))
    };
    let threads = [
        start(|play| {
            for _ in 0..2 {
                let own: Vec<_> = (0..BURST).map(|_| play.alloc()).collect();
                own.into_iter().for_each(|object| play.free(object));
            }
        }),
        start(|play| {
            for _ in 0..2 * BURST {
                let object = play.alloc();
                play.left.lock().unwrap().push(object);
            }
        }),
        start(|play| {
            for _ in 0..3 * BURST {
                let found = play.left.lock().unwrap().pop();
                match found {
                    Some(object) => play.free(object),
                    None => thread::yield_now(),
                }
            }
        }),
        start(|play| play.stack.cache(play.cache).shrink()),
    ];
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
    MODE_CHANGES.fetch_add(play.stack.cache(play.cache).stats().mode_changes, Relaxed);
    assert_eq!(play.stack.validate(), Ok(()));
    play.finish();
}

/// Changes of modes in all runs of the model.
static MODE_CHANGES: AtomicU64 = AtomicU64::new(0);

#[test]
fn slam_changes_modes_beside_threads_that_use_them() {
    // A single run may change no mode, so only the sum is checked.
    explore_at_most(runs(200).max(20), changing);
    assert!(MODE_CHANGES.load(Relaxed) > 0, "the model reaches other modes");
}

#[test]
fn a_barrier_that_does_nothing_is_found_out() {
    is_found_out("planted::barrier_does_nothing");
}

#[test]
#[ignore = "run by the test above: it fails"]
fn barrier_does_nothing() {
    explore_at_most(2_000, || draining::<Sheaf>(32 << 10, PlantedBug::BarrierDoesNothing));
}

#[test]
fn a_sequence_that_goes_on_after_preemption_is_found_out() {
    is_found_out("planted::commits_after_preemption");
}

#[test]
#[ignore = "run by the test above: it fails"]
fn commits_after_preemption() {
    explore_at_most(2_000, || trading::<Sheaf>(32 << 10, PlantedBug::CommitsAfterPreemption));
}
