//! Models of single policies, and planted bugs, which the models have to find.

use crate::exploring::is_found_out;
use crate::policies::{Play, size_for, trading};
use crate::{explore, explore_at_most, runs};
use quarry_eras::slab::{LinuxSlab, Slam, Slqb};
use quarry_sys::percpu::{PlantedBug, Stepped};
use shuttle::sync::Arc;
use shuttle::thread;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Two threads move between CPUs of two nodes. Often the objects that they free are of the other
/// node's memory, and go home in alien arrays of two objects.
fn aliens(bug: PlantedBug) {
    let play = Arc::new(Play::<LinuxSlab>::on_nodes(2, size_for("slab"), bug));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let play = Arc::clone(&play);
            thread::spawn(move || {
                play.trade(8);
                play.stack.cache(play.cache).shrink();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
    assert_eq!(play.stack.validate(), Ok(()));
    play.finish();
}

#[test]
fn aliens_go_home_beside_threads_that_free_more() {
    explore(400, || aliens(PlantedBug::None));
}

/// Remote claims: a producer allocates on CPU 0, a consumer frees on CPU 1 what it finds, and a
/// third thread runs on CPU 0 as well, so that its steps come between the producer's. With a batch
/// of one object and a high mark of four, each free of the consumer soon brings an object back, and
/// each allocation of the producer claims what is there.
fn claiming(bug: PlantedBug) {
    let play = Arc::new(Play::<Slqb>::new(256 << 10, bug));
    let spawn = |cpu: u32, work: fn(&Play<Slqb>)| {
        let play = Arc::clone(&play);
        thread::spawn(move || {
            Stepped::pin(cpu);
            work(&play);
        })
    };
    let threads = [
        spawn(0, |play| {
            for _ in 0..10 {
                let object = play.alloc();
                play.left.lock().unwrap().push(object);
            }
        }),
        spawn(1, |play| {
            for _ in 0..14 {
                let found = play.left.lock().unwrap().pop();
                found.into_iter().for_each(|object| play.free(object));
            }
        }),
        spawn(0, |play| {
            let objects = [play.alloc(), play.alloc()];
            objects.into_iter().for_each(|object| play.free(object));
        }),
    ];
    threads.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
    assert_eq!(play.stack.validate(), Ok(()));
    play.finish();
}

#[test]
fn claimed_objects_are_handed_out_once() {
    explore(1_000, || claiming(PlantedBug::None));
}

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
fn a_list_that_is_left_to_another_cpu_is_found_out() {
    is_found_out("planted::leaves_lists_to_other_cpus");
}

#[test]
#[ignore = "run by the test above: it fails"]
fn leaves_lists_to_other_cpus() {
    explore_at_most(2_000, || trading::<Slqb>(256 << 10, PlantedBug::CompareStoreIgnoresCpu));
}

#[test]
fn a_claim_that_goes_on_after_preemption_is_found_out() {
    is_found_out("planted::claims_after_preemption");
}

#[test]
#[ignore = "run by the test above: it fails"]
fn claims_after_preemption() {
    explore_at_most(2_000, || claiming(PlantedBug::CommitsAfterPreemption));
}
