//! Decides whether an allocator's share of a program's time is worth a comparison.
//!
//! A counted run measures the share of the CPU time on which an allocator has an influence. In a
//! short run chance may halve or double that share. Therefore
//!
//! * a first run of a second or more decides alone, unless its share is within a factor of
//!   [`CLOSE`] of the bound below which a comparison is refused. Any run without requests, or with
//!   [`PLENTY`] times the negligible share, also decides alone;
//! * else the median of [`RUNS`] short or [`LONG_RUNS`] long runs decides;
//! * a share below half of the negligible one refuses the comparison; a share below twice the
//!   negligible one adds a warning that the effect is small.

use quarry_harness::statistics;

/// Counted runs of a short program.
const RUNS: usize = 5;
/// Counted runs of a long program whose share is close to the bound.
const LONG_RUNS: usize = 3;
/// A long run whose share is within this factor of the bound does not decide alone.
const CLOSE: f64 = 1.2;
/// A run that takes this time or longer counts as long.
pub(super) const LONG_NS: u64 = 1_000_000_000;
/// A run with this multiple of the negligible share decides alone: noise cannot explain it.
const PLENTY: f64 = 4.0;
/// Factor by which the median of several measurements may be off.
const DOUBT: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Influence {
    pub(super) share: f64,
    pub(super) wall_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// One more counted run is needed.
    Unknown,
    Nothing,
    /// A comparison is made, and a line warns how small the effect can be.
    Little,
    Enough,
}

/// Judges the runs so far; after [`RUNS`] of them the result is not `Unknown`.
pub(super) fn of(seen: &[Influence], negligible: f64) -> Weight {
    let Some(last) = seen.last() else { return Weight::Unknown };
    if last.share >= PLENTY * negligible {
        return Weight::Enough;
    }
    let bound = negligible / DOUBT;
    let is_long = last.wall_ns >= LONG_NS;
    let is_close = last.share > bound / CLOSE && last.share < bound * CLOSE;
    let decides_alone = last.share == 0.0 || (is_long && seen.len() == 1 && !is_close);
    let wanted = if is_long { LONG_RUNS } else { RUNS };
    let influences: Vec<f64> = match decides_alone {
        true => vec![last.share],
        false if seen.len() < wanted => return Weight::Unknown,
        false => seen.iter().map(|it| it.share).collect(),
    };
    match statistics::median(&influences) {
        Some(share) if share < bound => Weight::Nothing,
        Some(share) if share < negligible * DOUBT => Weight::Little,
        _ => Weight::Enough,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    /// The judgement, and the number of runs after which it was made.
    fn judged(influences: &[f64], wall_ns: u64) -> (Weight, usize) {
        let seen: Vec<Influence> =
            influences.iter().map(|&share| Influence { share, wall_ns }).collect();
        let after = (1..=seen.len()).find(|runs| of(&seen[..*runs], 0.01) != Weight::Unknown);
        let after = after.expect("a judgement in the end");
        (of(&seen[..after], 0.01), after)
    }

    #[test]
    fn a_long_run_decides_alone() {
        for (influence, weight) in
            [(0.001, Weight::Nothing), (0.01, Weight::Little), (0.03, Weight::Enough)]
        {
            assert_eq!(judged(&[influence], LONG_NS), (weight, 1));
        }
    }

    #[test]
    fn a_long_run_close_to_the_bound_is_repeated() {
        assert_eq!(judged(&[0.0049, 0.0052, 0.0051], LONG_NS), (Weight::Little, 3));
        assert_eq!(judged(&[0.0051, 0.0048, 0.0049], LONG_NS), (Weight::Nothing, 3));
        assert_eq!(judged(&[0.0055, 0.009, 0.001], LONG_NS), (Weight::Little, 3));
    }

    #[test]
    fn where_nothing_is_asked_for_no_further_run_says_more() {
        assert_eq!(judged(&[0.0], MILLISECOND), (Weight::Nothing, 1));
        assert_eq!(judged(&[0.5], MILLISECOND), (Weight::Enough, 1));
    }

    #[test]
    fn short_runs_are_judged_by_their_median() {
        let of = |influences: [f64; 5]| judged(&influences, 2 * MILLISECOND);
        assert_eq!(of([0.011, 0.003, 0.004, 0.002, 0.012]), (Weight::Nothing, 5));
        assert_eq!(of([0.003, 0.004, 0.011, 0.002, 0.012]), (Weight::Nothing, 5), "in any order");
        assert_eq!(of([0.006, 0.009, 0.012, 0.008, 0.019]), (Weight::Little, 5));
        assert_eq!(of([0.003, 0.025, 0.03, 0.022, 0.024]), (Weight::Enough, 5));
    }

    /// If noise doubles a share, a refusal becomes at most a comparison with a warning.
    #[test]
    fn chance_never_turns_a_refusal_into_a_comparison_without_a_word() {
        let rank = |weight| match weight {
            Weight::Unknown => unreachable!("five runs are enough"),
            Weight::Nothing => 0,
            Weight::Little => 1,
            Weight::Enough => 2,
        };
        for step in 1..100 {
            let share = f64::from(step) / 4000.0;
            let [low, high] =
                [0.71, 1.41].map(|off| rank(judged(&[share * off; 5], 2 * MILLISECOND).0));
            assert!(high - low <= 1, "{share}");
        }
    }

    #[test]
    fn no_run_says_nothing() {
        assert_eq!(of(&[], 0.01), Weight::Unknown);
    }
}
