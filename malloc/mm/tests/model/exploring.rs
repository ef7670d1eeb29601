//! Runs scenarios under the model checker.

use shuttle::Config;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use std::process::Command;

/// Runs a scenario `runs` times under schedules with a few preemptions in places that are hard to
/// hit (Burckhardt et al. 2010), and as often under random schedules, which interleave short
/// sequences. `QUARRY_MODEL_RUNS` replaces `runs`.
pub(crate) fn explore(runs: usize, scenario: fn()) {
    explore_at_most(self::runs(runs), scenario);
}

/// `QUARRY_MODEL_RUNS`, or the usual number of runs.
pub(crate) fn runs(usual: usize) -> usize {
    std::env::var("QUARRY_MODEL_RUNS").map_or(usual, |text| text.parse().unwrap())
}

/// Same as [`explore`], but ignores `QUARRY_MODEL_RUNS`: a planted bug must show within `runs`.
pub(crate) fn explore_at_most(runs: usize, scenario: fn()) {
    // A Quarry stack is a large value, and threads of the model build it on their call stacks.
    let config = || {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        config
    };
    shuttle::Runner::new(PctScheduler::new(3, runs), config()).run(scenario);
    shuttle::Runner::new(RandomScheduler::new(runs), config()).run(scenario);
}

/// Runs an ignored test of this program in a separate process, which must fail. An object in two
/// places is found either by the oracle, or by the stack itself, which aborts.
pub(crate) fn is_found_out(test: &str) {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args([test, "--exact", "--ignored", "--nocapture"])
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("running 1 test"), "{text}");
}
