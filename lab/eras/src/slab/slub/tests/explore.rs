//! Runs scenarios under the model checker, either correct or with one rule broken.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner, thread};

fn run<S: Scheduler + 'static, B: Copy + Send + Sync + 'static>(
    scheduler: S,
    persistence: FailurePersistence,
    scenario: fn(B),
    broken: B,
) {
    let mut config = Config::new();
    config.failure_persistence = persistence;
    Runner::new(scheduler, config).run(move || scenario(broken));
}

/// A broken rule must be detected within this many runs; the first detection ends the search.
const BROKEN_RUNS: usize = 30_000;

/// Runs of a scenario under each scheduler; QUARRY_MODEL_RUNS can set another number.
fn runs() -> usize {
    let chosen = std::env::var("QUARRY_MODEL_RUNS").ok().map(|runs| runs.parse());
    chosen.map_or(3_000, |runs| runs.expect("QUARRY_MODEL_RUNS is a number"))
}

/// Runs a scenario with no rule broken; it must not fail.
pub(super) fn check<B: Copy + Send + Sync + 'static>(scenario: fn(B), nothing: B) {
    run(RandomScheduler::new(runs()), FailurePersistence::Print, scenario, nothing);
    run(PctScheduler::new(3, runs()), FailurePersistence::Print, scenario, nothing);
}

/// Runs a scenario with a rule broken; it must fail under one of the schedulers.
pub(super) fn expect_failure<B: Copy + Send + Sync + 'static>(scenario: fn(B), broken: B) {
    let fails = |scheduler: fn(fn(B), B)| {
        std::thread::spawn(move || scheduler(scenario, broken)).join().is_err()
    };
    let found = fails(|scenario, broken| {
        run(RandomScheduler::new(BROKEN_RUNS), FailurePersistence::None, scenario, broken);
    }) || fails(|scenario, broken| {
        run(PctScheduler::new(3, BROKEN_RUNS), FailurePersistence::None, scenario, broken);
    });
    assert!(found, "the broken rule went unnoticed");
}

/// Waits for threads of the model.
pub(super) fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
