//! Random inputs: `PROPTEST_CASES` of them, shrunk where they fail.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

/// Runs `test` on `cases` values of `strategy`, or on as many as `PROPTEST_CASES` says.
pub(crate) fn check<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value)) {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    let mut runner = TestRunner::new(config);
    let result = runner.run(&strategy, |value| {
        test(value);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
