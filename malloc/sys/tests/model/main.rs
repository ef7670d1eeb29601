//! Models: shuttle runs interleavings of the slot protocol, the counted lock, the gate of `fork`
//! and others.
//!
//! `scripts/model.sh` runs them. Each scenario runs under two schedulers. It also runs with a bug
//! planted in the sequences, and then its check has to fail.
#![cfg(quarry_model)]

mod arrays;
mod gate;
mod lists;
mod lock;
mod record_page;
mod walks;

use quarry_sys::os::FakeOs;
use quarry_sys::percpu::{ArrayId, Arrays, Object, PerCpu, PlantedBug, SteppedSlots};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};
use std::ops::Deref;

static OS: FakeOs = FakeOs::new(4096);

/// Maximum number of runs under each scheduler. A planted bug has to show in one of them, which is
/// then the last.
const PLANTED_RUNS: usize = 50_000;
/// Number of times that each scheduler has its turn.
const TURNS: usize = 25;

/// Runs of a scenario under each scheduler; QUARRY_MODEL_RUNS sets another number.
fn runs() -> usize {
    let chosen = std::env::var("QUARRY_MODEL_RUNS").ok().map(|runs| runs.parse());
    chosen.map_or(5_000, |runs| runs.expect("QUARRY_MODEL_RUNS is a number"))
}

fn run<S: Scheduler + 'static>(scheduler: S, persistence: FailurePersistence, scenario: Scenario) {
    let mut config = Config::new();
    config.failure_persistence = persistence;
    Runner::new(scheduler, config).run(scenario);
}

type Scenario = fn();

/// Checks a scenario under random schedules, and under schedules with few preemptions (PCT).
fn check(scenario: Scenario) {
    run(RandomScheduler::new(runs()), FailurePersistence::Print, scenario);
    run(PctScheduler::new(3, runs()), FailurePersistence::Print, scenario);
}

/// Expects the check of a scenario with a planted bug to fail. Makes more runs than `check`, on a
/// new OS thread: thread-locals that a failed run leaves must not reach the next one.
fn expect_failure(scenario: Scenario) {
    let fails = |body: fn(Scenario)| std::thread::spawn(move || body(scenario)).join().is_err();
    // The schedulers take turns: one often shows at once a bug that the other hardly ever shows.
    let found = (0..TURNS).any(|_| {
        fails(|scenario| {
            let scheduler = PctScheduler::new(3, PLANTED_RUNS / TURNS);
            run(scheduler, FailurePersistence::None, scenario);
        }) || fails(|scenario| {
            let scheduler = RandomScheduler::new(PLANTED_RUNS / TURNS);
            run(scheduler, FailurePersistence::None, scenario);
        })
    });
    assert!(found, "the planted bug went unnoticed");
}

/// Slots of one run.
struct Slots(SteppedSlots);

impl Slots {
    fn new(cpus: u32, bug: PlantedBug) -> Self {
        let slots = SteppedSlots::INERT;
        slots.sequences().set_cpus(cpus);
        slots.sequences().plant(bug);
        slots.init(&OS).expect("the fake OS refuses nothing");
        Self(slots)
    }

    fn drained(&self, array: ArrayId) -> Vec<usize> {
        let mut found = Vec::new();
        assert!(self.drain(array, &mut |objects| found.extend(objects.iter().map(number))));
        found
    }
}

impl Deref for Slots {
    type Target = SteppedSlots;
    fn deref(&self) -> &SteppedSlots {
        &self.0
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the run's threads have been joined.
        unsafe { self.0.area().release(&OS) };
    }
}

/// Repeats a sequence that may refuse because it was interrupted too often.
fn until(mut is_done: impl FnMut() -> bool) {
    while !is_done() {}
}

fn tag(number: usize) -> Object {
    Object::new(((number + 1) * 16) as *mut u8).expect("numbers are small")
}

fn number(object: &Object) -> usize {
    object.as_ptr() as usize / 16 - 1
}

fn all_once(mut found: Vec<usize>, wanted: impl IntoIterator<Item = usize>) {
    found.sort_unstable();
    assert_eq!(found, wanted.into_iter().collect::<Vec<_>>(), "each object once");
}
