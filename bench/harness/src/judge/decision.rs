//! Decides the outcome from two columns of figures, by the 95 % interval of the variant's ratio to
//! the baseline, or of its difference from the baseline (then read 0 for 1):
//!
//! * the whole interval is within the margin ([`MARGIN`] around 1 for ratios): **same**;
//! * else the interval lies beyond 1, and the interval relative to the A/A copy (a second copy of
//!   the baseline that ran along) lies beyond 1 on the same side: **better** or **worse**;
//! * else **undecided**: [`Decision::more_runs`] more runs would decide if centre and spread stay.
//!
//! Without a copy, the whole interval has to lie beyond the margin for **better** or **worse**.

use super::Outcome;
use crate::results::{Direction, Relation};
use crate::statistics::{self, Estimate, Interval, MIN_PAIRS};

/// Distance from 1 within which ratios count as the same: too small to choose an allocator by.
pub const MARGIN: f64 = 0.02;

/// Figures of a column, one per round. If a ratio is wanted they are logarithms, so that every
/// comparison is a difference around 0.
pub(super) type Figures = Vec<Option<f64>>;

#[derive(Clone, Copy)]
pub(super) struct Rule {
    /// Ratio if the figures are logarithms, difference if they are plain values.
    pub(super) relation: Relation,
    pub(super) direction: Direction,
    /// Differences of figures within this count as the same.
    pub(super) margin: f64,
    pub(super) is_paired: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) outcome: Outcome,
    pub(super) estimate: Estimate,
    pub(super) noise: Option<Interval>,
    pub(super) pairs: usize,
    pub(super) more_runs: Option<usize>,
}

/// Estimates how far `one` lies above `other`, and counts the pairs; `None` without a pair.
pub(super) fn estimate(
    one: &[Option<f64>],
    other: &[Option<f64>],
    is_paired: bool,
) -> Option<(Estimate, usize)> {
    if is_paired {
        let pairs = one.iter().zip(other).filter_map(|(one, other)| Some((*one)? - (*other)?));
        let differences: Vec<f64> = pairs.collect();
        return Some((statistics::of_pairs(&differences)?, differences.len()));
    }
    let [one, other] = [one, other].map(|it| it.iter().copied().flatten().collect::<Vec<f64>>());
    Some((statistics::of_samples(&one, &other)?, one.len().min(other.len())))
}

/// Returns an estimate of [`Figures`] in printed form: logarithms become ratios.
pub(super) fn shown(relation: Relation, estimate: Estimate) -> Estimate {
    match relation {
        Relation::Ratio => estimate.map(f64::exp),
        Relation::Difference => estimate,
    }
}

impl Rule {
    /// Judges a variant; `None` if no figure of it can be compared with the baseline's.
    pub(super) fn judge(
        &self,
        variant: &[Option<f64>],
        baseline: &[Option<f64>],
        copy: Option<&[Option<f64>]>,
    ) -> Option<Decision> {
        let (of_baseline, pairs) = estimate(variant, baseline, self.is_paired)?;
        let of_copy = copy.and_then(|copy| estimate(variant, copy, self.is_paired));
        let noise = copy.and_then(|copy| estimate(copy, baseline, true));
        let seen = Estimates { rule: *self, of_baseline, of_copy: of_copy.map(|(it, _)| it) };
        let outcome = seen.outcome();
        let more_runs = || match seen.factor_to_settle() {
            Some(factor) => (pairs as f64 * factor).ceil() as usize - pairs,
            None => MIN_PAIRS.saturating_sub(pairs),
        };
        Some(Decision {
            outcome,
            estimate: shown(self.relation, of_baseline),
            noise: noise.and_then(|(noise, _)| shown(self.relation, noise).interval),
            pairs,
            more_runs: (outcome == Outcome::Undecided).then(|| more_runs().max(1)),
        })
    }
}

struct Estimates {
    rule: Rule,
    of_baseline: Estimate,
    of_copy: Option<Estimate>,
}

impl Estimates {
    fn outcome(&self) -> Outcome {
        let margin = self.rule.margin;
        let Some(seen) = self.of_baseline.interval else { return Outcome::Undecided };
        if -margin <= seen.low && seen.high <= margin {
            return Outcome::Same;
        }
        let is_beyond = |least: f64, interval: &Interval, sign: f64| match sign > 0.0 {
            true => interval.low > least,
            false => interval.high < -least,
        };
        let sign = self.of_baseline.centre;
        let is_apart = match self.of_copy {
            None => is_beyond(margin, &seen, sign),
            Some(Estimate { interval: None, .. }) => false,
            Some(Estimate { interval: Some(of_copy), .. }) => {
                is_beyond(0.0, &seen, sign) && is_beyond(0.0, &of_copy, sign)
            }
        };
        match (is_apart, self.rule.direction) {
            (false, _) => Outcome::Undecided,
            (true, Direction::None) if sign > 0.0 => Outcome::Higher,
            (true, Direction::None) => Outcome::Lower,
            (true, direction) if (sign > 0.0) == (direction == Direction::Higher) => {
                Outcome::Better
            }
            (true, _) => Outcome::Worse,
        }
    }

    /// Returns the factor by which the number of pairs must grow until the outcome is decided, if
    /// intervals shrink with the square root of this number; `None` without an interval.
    fn factor_to_settle(&self) -> Option<f64> {
        let margin = self.rule.margin;
        let half = |it: &Estimate| Some((it.interval?.high - it.interval?.low) / 2.0);
        let squared = |half: f64, room: f64| match room > 0.0 {
            true => (half / room).powi(2),
            false => f64::INFINITY,
        };
        let centre = self.of_baseline.centre;
        let seen = half(&self.of_baseline)?;
        let beyond = match &self.of_copy {
            None => squared(seen, centre.abs() - margin),
            // The variant lies between the baseline and its copy, so more runs would never decide.
            Some(of_copy) if of_copy.centre * centre <= 0.0 => f64::INFINITY,
            Some(of_copy) => {
                squared(seen, centre.abs()).max(squared(half(of_copy)?, of_copy.centre.abs()))
            }
        };
        let within = squared(seen, margin - centre.abs());
        Some(beyond.min(within).clamp(1.0, 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    /// Standard deviation of a sample's logarithm within its round, on a busy machine of two
    /// virtual CPUs; `docs/methodology.md` says how this and `DELAYED` were measured.
    const NOISE: f64 = 0.0183;
    /// Share of delayed samples, and their delay.
    const DELAYED: f64 = 0.035;
    const DELAY: f64 = 0.15;

    /// Draws logarithms of samples: a drift per round, a spread, and delays.
    struct Machine(StdRng);

    impl Machine {
        fn new(seed: u64) -> Self {
            Self(StdRng::seed_from_u64(seed))
        }

        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.0.random_range(0.0..1.0)).sum::<f64>() - 6.0
        }

        fn run(&mut self, factors: &[f64], samples: usize) -> Vec<Figures> {
            let mut columns = vec![Vec::new(); factors.len()];
            for _ in 0..samples {
                let drift = 0.1 * self.normal();
                for (column, factor) in columns.iter_mut().zip(factors) {
                    let delay = if self.0.random_bool(DELAYED) { DELAY } else { 0.0 };
                    column.push(Some(factor.ln() + NOISE * self.normal() + drift + delay));
                }
            }
            columns
        }
    }

    const RULE: Rule = Rule {
        relation: Relation::Ratio,
        direction: Direction::Lower,
        margin: 0.0198,
        is_paired: true,
    };

    fn judged(columns: &[Figures], rule: Rule) -> Decision {
        let [baseline, copy, variant] = columns else { panic!("three columns") };
        rule.judge(variant, baseline, Some(copy)).unwrap()
    }

    fn outcomes(factor: f64, samples: usize, wanted: Outcome) -> usize {
        let mut machine = Machine::new(7);
        let trial =
            |_: &usize| judged(&machine.run(&[1.0, 1.0, factor], samples), RULE).outcome == wanted;
        (0..100).filter(trial).count()
    }

    fn samples() -> usize {
        crate::options::USUAL_SAMPLES.parse().unwrap()
    }

    #[test]
    fn equal_things_are_called_the_same() {
        let same = outcomes(1.0, samples(), Outcome::Same);
        assert!(same >= 95, "{same} of 100");
    }

    #[test]
    fn a_planted_slow_down_of_three_percent_is_found() {
        let worse = outcomes(1.03, samples(), Outcome::Worse);
        assert!(worse >= 95, "{worse} of 100");
        let better = outcomes(1.0 / 1.03, samples(), Outcome::Better);
        assert!(better >= 95, "{better} of 100");
    }

    #[test]
    fn with_few_samples_nothing_false_is_said() {
        for samples in [2, 5, 6, 8] {
            let wrong =
                outcomes(1.0, samples, Outcome::Worse) + outcomes(1.0, samples, Outcome::Better);
            assert!(wrong <= 2, "{wrong} of 100 with {samples} samples");
        }
        let (few, columns) = (3, Machine::new(1).run(&[1.0, 2.0], 3));
        let decision = RULE.judge(&columns[1], &columns[0], None).unwrap();
        assert_eq!((decision.outcome, decision.pairs), (Outcome::Undecided, few));
        assert_eq!(decision.more_runs, Some(3), "six are the fewest with an interval");
    }

    #[test]
    fn the_promised_number_of_runs_settles_it() {
        let (mut settled, mut undecided) = (0, 0);
        for seed in 0..100 {
            let run = |samples| judged(&Machine::new(seed).run(&[1.0, 1.0, 1.03], samples), RULE);
            // With the same seed, a longer run begins with the same rounds.
            let first = run(8);
            if first.outcome == Outcome::Undecided {
                undecided += 1;
                let more = first.more_runs.unwrap();
                assert!(more > 0);
                settled += usize::from(run(8 + more.min(400)).outcome != Outcome::Undecided);
            }
        }
        assert!(undecided > 20 && settled * 2 >= undecided, "{settled} of {undecided}");
    }

    #[test]
    fn the_direction_decides_what_is_better() {
        let columns = Machine::new(3).run(&[1.0, 1.0, 1.5], samples());
        let outcome = |direction| judged(&columns, Rule { direction, ..RULE }).outcome;
        assert_eq!(outcome(Direction::Lower), Outcome::Worse);
        assert_eq!(outcome(Direction::Higher), Outcome::Better);
        assert_eq!(outcome(Direction::None), Outcome::Higher);
    }

    #[test]
    fn runs_apart_are_compared_without_pairing() {
        let rule = Rule { direction: Direction::Higher, is_paired: false, ..RULE };
        let column = |seed, factor| Machine::new(seed).run(&[factor], 40).remove(0);
        let (baseline, copy, double) = (column(1, 1.0), column(2, 1.0), column(3, 2.0));
        let decision = rule.judge(&double, &baseline, Some(&copy)).unwrap();
        assert_eq!(decision.outcome, Outcome::Better);
        let centre = decision.estimate.centre;
        assert!((1.8..2.2).contains(&centre), "{centre}");
        let decision = rule.judge(&copy, &baseline, None).unwrap();
        assert_eq!(decision.outcome, Outcome::Undecided, "the drift of 10 % is not paired away");
    }

    #[test]
    fn rounds_with_a_gap_are_left_out() {
        let columns = [[Some(1.0), None, Some(1.0)], [None, Some(1.0), Some(0.0)]];
        let decision = RULE.judge(&columns[0], &columns[1], None).unwrap();
        assert_eq!((decision.pairs, decision.estimate.centre), (1, 1f64.exp()));
        assert_eq!(RULE.judge(&columns[0][..2], &columns[1][..2], None), None);
        assert_eq!(RULE.judge(&[], &[], None), None);
    }

    /// Columns of a clock with ticks of 1 ms, in seconds.
    fn ticks(values: [u32; 8]) -> Figures {
        values.iter().map(|ticks| Some(f64::from(*ticks) / 1000.0)).collect()
    }

    #[test]
    fn near_zero_differences_are_judged() {
        let rule = Rule { relation: Relation::Difference, margin: 0.005, ..RULE };
        let baseline = ticks([0, 1, 0, 2, 1, 0, 1, 0]);
        let copy = ticks([1, 0, 0, 1, 2, 0, 0, 1]);
        let judge = |variant: &[Option<f64>]| rule.judge(variant, &baseline, Some(&copy)).unwrap();
        // The ratio is three, but the difference is within the clock's resolution.
        let same = judge(&ticks([2, 3, 1, 3, 2, 2, 3, 1]));
        assert_eq!(same.outcome, Outcome::Same);
        assert!((0.0..0.003).contains(&same.estimate.centre), "{same:?}");
        let worse = judge(&ticks([60, 61, 60, 62, 61, 60, 61, 60]));
        assert_eq!(worse.outcome, Outcome::Worse);
        assert!((worse.estimate.centre - 0.06).abs() < 0.001, "{worse:?}");
        assert!(worse.estimate.interval.unwrap().low > 0.05 && worse.noise.is_some(), "{worse:?}");
        let all_zero = vec![Some(0.0); 8];
        let none = Rule { margin: 0.0, ..rule }.judge(&all_zero, &all_zero, None).unwrap();
        assert_eq!((none.outcome, none.estimate.centre), (Outcome::Same, 0.0));
    }
}
