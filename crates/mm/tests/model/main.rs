//! The barn and the slab policies under the model checker: which thread runs next is decided anew
//! in front of every access to shared memory. Run by `scripts/model.sh`.
//!
//! What is checked: an object is in one place at a time (a thread's hands, a slot, a barn, a slab),
//! and none is lost.
#![cfg(quarry_model)]

#[path = "../suites/support/system.rs"]
#[expect(dead_code, reason = "models need less of it than the suites")]
mod system;

mod barn;
mod errors;
mod hands;
mod hooks;
mod index;
mod numbers;
mod page_cache;
mod policies;

use shuttle::Config;
use shuttle::scheduler::{PctScheduler, RandomScheduler};

/// Runs a scenario under schedules with a few preemptions in places that are hard to hit
/// (Burckhardt et al. 2010), and under random ones, which let short sequences run into each other.
/// `QUARRY_MODEL_RUNS` sets how often.
fn explore(runs: usize, scenario: fn()) {
    explore_at_most(self::runs(runs), scenario);
}

/// `QUARRY_MODEL_RUNS`, or the usual number of runs.
fn runs(usual: usize) -> usize {
    std::env::var("QUARRY_MODEL_RUNS").map_or(usual, |text| text.parse().unwrap())
}

/// The same, whatever `QUARRY_MODEL_RUNS` is: a planted bug has to show in one of these runs.
fn explore_at_most(runs: usize, scenario: fn()) {
    // A stack is a large value, and is built on the stack of a model's thread.
    let config = || {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        config
    };
    shuttle::Runner::new(PctScheduler::new(3, runs), config()).run(scenario);
    shuttle::Runner::new(RandomScheduler::new(runs), config()).run(scenario);
}
