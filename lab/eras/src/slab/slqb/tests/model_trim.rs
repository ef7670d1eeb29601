//! Trimming under the model checker: a thread takes lists out of the cells of CPUs that use them.

use super::bed::Bed;
use crate::pages::tests::TINY;
use crate::slab::slqb::trim::TRIM_NS;
use quarry_sys::clock::coarse_ns;
use quarry_sys::percpu::{Object, PlantedBug, SlotIndex, SteppedSlots};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::Arc;
use shuttle::{Config, Runner, thread};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;

/// A bed, and the objects in use. The mutex is std's, so that locking it is not a step of the
/// model.
struct Play {
    bed: Bed<SteppedSlots>,
    hands: Mutex<BTreeSet<usize>>,
}

impl Play {
    fn alloc(&self) -> Object {
        let object = self.bed.try_alloc().expect("there is memory");
        let is_new = self.hands.lock().unwrap().insert(object.as_ptr() as usize);
        assert!(is_new, "{object:p} was handed out twice");
        object
    }

    fn free(&self, object: Object) {
        assert!(self.hands.lock().unwrap().remove(&(object.as_ptr() as usize)));
        self.bed.free_one(object);
    }
}

/// Two CPUs allocate and free, and a thread trims both again and again. A batch is one object, and
/// a high mark four.
fn trimming(bug: PlantedBug) {
    let bed = Bed::with(256 << 10, &TINY, |percpu: &SteppedSlots| {
        percpu.sequences().set_cpus(2);
        percpu.sequences().plant(bug);
    });
    let play = Arc::new(Play { bed, hands: Mutex::default() });
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let play = Arc::clone(&play);
            thread::spawn(move || {
                for _ in 0..3 {
                    let objects = [play.alloc(), play.alloc(), play.alloc()];
                    objects.into_iter().for_each(|object| play.free(object));
                }
            })
        })
        .collect();
    for trim in 1..=30 {
        thread::yield_now();
        // The workers' slow paths have noted the real time.
        let now_ns = coarse_ns() + 2 * trim * TRIM_NS;
        play.bed.own(|own| own.trim_all(now_ns, false));
    }
    workers.into_iter().for_each(|worker| worker.join().expect("a thread of the model"));
    play.bed.validate();
    let stats = play.bed.stats();
    assert_eq!(stats.active_objects, stats.parked_objects, "{stats:?}");
    assert!(play.bed.own(|own| own.tables.used_slots().all(|slot| slot < SlotIndex(2))));
    play.bed.shrink();
    play.bed.validate();
    assert_eq!(play.bed.stats().total_slabs, 0);
}

fn explore<S: Scheduler + 'static>(scheduler: S, scenario: fn()) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    Runner::new(scheduler, config).run(scenario);
}

#[test]
fn lists_are_trimmed_beside_threads_that_use_them() {
    let runs = std::env::var("QUARRY_MODEL_RUNS").map_or(400, |text| text.parse().unwrap());
    explore(PctScheduler::new(3, runs), || trimming(PlantedBug::None));
    explore(RandomScheduler::new(runs), || trimming(PlantedBug::None));
}

/// Runs in a process of its own. An object in two places is detected either by the test, which
/// panics, or by the policy, which aborts.
#[test]
fn a_trim_without_its_barrier_is_found_out() {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args(["slab::slqb::tests::model_trim::barrier_does_nothing", "--exact", "--ignored"])
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("running 1 test"), "{text}");
}

#[test]
#[ignore = "run by the test above: it fails"]
fn barrier_does_nothing() {
    explore(PctScheduler::new(3, 4_000), || trimming(PlantedBug::BarrierDoesNothing));
}
