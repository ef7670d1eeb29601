//! Random inputs; proptest shrinks an input that fails.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

/// Proptest's own number of cases, which `PROPTEST_CASES` replaces.
const USUAL: u32 = 256;

/// Runs `test` on `cases` values of `strategy`. `PROPTEST_CASES` up to [`USUAL`] is an upper bound
/// of `cases`; a larger value multiplies `cases` by that value divided by [`USUAL`].
pub(crate) fn check<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value)) {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    config.cases = match config.cases {
        few @ ..=USUAL => cases.min(few),
        many => cases.saturating_mul(many / USUAL),
    };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&strategy, |value| {
        test(value);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
