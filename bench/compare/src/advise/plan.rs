//! The number of runs that fit into the time. It is fixed before the first run, so that no result
//! decides how long a candidate is measured.
//!
//! ```text
//! runs(first)  = rounds * (candidates + 1)
//! runs(second) = rounds * (kept + 1)
//! runs(test)   = rounds * 3          the candidate, the baseline and the baseline's copy
//! runs(first) + runs(second) + runs(test) <= time / cost of a run
//! ```

use quarry_harness::statistics::MIN_PAIRS;
use std::time::Duration;

/// Variants of the test: the candidate, the baseline and the baseline's copy.
pub(super) const TESTED: u32 = 3;
/// Share of the runs that the test gets, within [`MIN_PAIRS`] and [`MOST_TESTED`] rounds.
const TEST_SHARE: f64 = 0.5;
/// Maximum number of rounds of the test: intervals shrink only with the square root of the rounds.
pub(super) const MOST_TESTED: u32 = 100;
const MOST_FIRST: u32 = 5;
const MOST_SECOND: u32 = 10;
const KEPT: u32 = 4;
/// Share of the time for which runs are planned: other work of the machine makes runs longer.
const PLANNED: f64 = 0.85;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Candidates of the first stage; later ones are left out.
    pub(super) candidates: u32,
    pub(super) first: u32,
    pub(super) kept: u32,
    /// Rounds of the second stage; 0 if there is none.
    pub(super) second: u32,
    pub(super) test: u32,
}

/// Plans a search over `candidates` in `time`, if a run takes `cost`. If `time` is too short, the
/// error is the shortest time that would suffice.
pub(super) fn plan(candidates: u32, cost: Duration, time: Duration) -> Result<Plan, Duration> {
    let cost = cost.max(Duration::from_millis(1)).as_secs_f64();
    let runs = (time.as_secs_f64() * PLANNED / cost) as u32;
    // The first stage with one candidate and one round, and then the test.
    let least = 2 + TESTED * MIN_PAIRS as u32;
    if runs < least || candidates == 0 {
        return Err(Duration::from_secs_f64((cost * f64::from(least) / PLANNED).ceil()));
    }
    let test = (f64::from(runs) * TEST_SHARE / f64::from(TESTED)) as u32;
    let test = test.clamp(MIN_PAIRS as u32, MOST_TESTED);
    let left = runs - test * TESTED;
    let candidates = candidates.min(left - 1);
    let first = (left * 2 / 3 / (candidates + 1)).clamp(1, MOST_FIRST);
    let left = left - first * (candidates + 1);
    let kept = KEPT.min(candidates);
    let second = (left / (kept + 1)).min(MOST_SECOND);
    let second = if candidates == 1 { 0 } else { second };
    let left = left - second * (kept + 1);
    let test = (test + left / TESTED).min(MOST_TESTED);
    let plan = Plan { candidates, first, kept, second, test };
    debug_assert!(plan.runs() <= runs, "{plan:?} of {runs}");
    Ok(plan)
}

impl Plan {
    pub(super) fn runs(&self) -> u32 {
        let Self { candidates, first, kept, second, test } = self;
        first * (candidates + 1) + second * (kept + 1) + test * TESTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE_MINUTES: Duration = Duration::from_secs(300);

    fn of(candidates: u32, ms: u64) -> Result<Plan, Duration> {
        plan(candidates, Duration::from_millis(ms), FIVE_MINUTES)
    }

    #[test]
    fn every_plan_fits_into_the_time_and_tests_with_intervals() {
        for candidates in 1..40 {
            for ms in [0, 1, 3, 10, 50, 200, 700, 1000, 2500, 5000, 9000, 12_000] {
                let plan = of(candidates, ms).unwrap();
                let needed = Duration::from_millis(ms) * plan.runs();
                assert!(needed <= FIVE_MINUTES, "{candidates} {ms}: {plan:?}");
                assert!(plan.test >= MIN_PAIRS as u32 && plan.first >= 1, "{plan:?}");
                assert!((1..=candidates).contains(&plan.candidates), "{plan:?}");
                assert!(plan.kept <= plan.candidates, "{plan:?}");
            }
        }
    }

    #[test]
    fn a_short_program_has_all_rounds_and_a_long_one_few_candidates() {
        let short = of(12, 50).unwrap();
        let expected = Plan { candidates: 12, first: 5, kept: 4, second: 10, test: 100 };
        assert_eq!(short, expected);
        let long = of(12, 10_000).unwrap();
        let expected = Plan { candidates: 6, first: 1, kept: 4, second: 0, test: 6 };
        assert_eq!(long, expected);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_time_that_it_needs() {
        let needed = of(12, 20_000).unwrap_err();
        assert!(needed > FIVE_MINUTES && plan(12, Duration::from_secs(20), needed).is_ok());
        assert!(of(0, 1).is_err());
    }
}
