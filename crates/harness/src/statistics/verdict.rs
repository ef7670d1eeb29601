//! Better, worse, same or undecided: the one place where the lab judges.
//!
//! A variant is compared with the baseline by the ratio of their samples: within rounds where both
//! were taken in the same run, between all samples where not. The ratio's 95 % interval decides:
//!
//! * within [`MARGIN`] of 1 as a whole: **same**;
//! * else beyond 1, and that of the ratio to the A/A copy (a second copy of the baseline that ran
//!   along) on the same side: **better** or **worse**. Chance alone rarely puts a variant on one
//!   side of two equal things;
//! * else **undecided**, and more runs would help: as many as [`Verdict::more_runs`] says, if what
//!   was seen so far stays as it is.
//!
//! Without a copy a difference must be larger than the margin to be told from noise.
//!
//! Where the baseline is near zero a ratio says nothing: 1 ms of system time against 3 is no factor
//! of three, but two ticks of a clock. There differences are judged in the same way, with a margin
//! in the unit of the figure.

use super::shift::{self, Shift};
use super::{Interval, MIN_PAIRS};
use crate::results::Direction;

/// A ratio this close to 1 is nothing that anybody should choose an allocator for.
pub const MARGIN: f64 = 0.02;

/// What is said of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Better than the baseline.
    Better,
    /// Worse than the baseline.
    Worse,
    /// Within the margin of it.
    Same,
    /// Too few samples for the noise.
    Undecided,
}

impl Outcome {
    /// As it is printed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Undecided => "undecided",
        }
    }
}

/// What a variant and the baseline are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// How many times the baseline the variant is.
    Ratio,
    /// How much more than the baseline it is, in the unit of the figure.
    Difference,
}

/// A judgement with its grounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// What is said.
    pub outcome: Outcome,
    /// What the following are.
    pub scale: Scale,
    /// Variant in relation to baseline, the most likely value.
    pub centre: f64,
    /// Its 95 % interval; `None` with too few samples.
    pub interval: Option<Interval>,
    /// The same interval of the A/A copy: what the machine does to two equal things.
    pub noise: Option<Interval>,
    /// Pairs, or samples of the side that has fewer.
    pub runs: usize,
    /// Runs beyond these that would settle an undecided one.
    pub more_runs: Option<usize>,
}

/// Judges a variant by rounds that it shares with the baseline and, if there is one, its copy. Each
/// slice has one entry per round. `None` where there is nothing to compare, where no direction is
/// better, or where a value is not positive, so that there is no ratio.
pub fn paired(
    variant: &[Option<f64>],
    baseline: &[Option<f64>],
    copy: Option<&[Option<f64>]>,
    direction: Direction,
) -> Option<Verdict> {
    let ratios = log_ratios(variant, baseline)?;
    let of = |one, other| shift::of_pairs(&log_ratios(one, other)?);
    let seen = Seen {
        scale: Scale::Ratio,
        margin: MARGIN.ln_1p(),
        of_baseline: shift::of_pairs(&ratios)?,
        of_copy: copy.and_then(|copy| of(variant, copy)),
        noise: copy.and_then(|copy| of(copy, baseline)),
    };
    seen.judge(ratios.len(), direction)
}

/// As [`paired`], by differences: within `margin`, in the unit of the figure, two are the same.
pub fn paired_differences(
    variant: &[Option<f64>],
    baseline: &[Option<f64>],
    copy: Option<&[Option<f64>]>,
    direction: Direction,
    margin: f64,
) -> Option<Verdict> {
    let between = differences(variant, baseline);
    let of = |one, other| shift::of_pairs(&differences(one, other));
    let seen = Seen {
        scale: Scale::Difference,
        margin,
        of_baseline: shift::of_pairs(&between)?,
        of_copy: copy.and_then(|copy| of(variant, copy)),
        noise: copy.and_then(|copy| of(copy, baseline)),
    };
    seen.judge(between.len(), direction)
}

/// Judges a variant by samples that were taken in another run than the baseline's. `copy` are the
/// copy's samples of the baseline's run.
pub fn unpaired(
    variant: &[f64],
    baseline: &[f64],
    copy: Option<&[f64]>,
    direction: Direction,
) -> Option<Verdict> {
    let (variant, baseline) = (logs(variant)?, logs(baseline)?);
    let copy = copy.and_then(logs);
    let seen = Seen {
        scale: Scale::Ratio,
        margin: MARGIN.ln_1p(),
        of_baseline: shift::of_samples(&variant, &baseline)?,
        of_copy: copy.as_ref().and_then(|copy| shift::of_samples(&variant, copy)),
        noise: copy.as_ref().and_then(|copy| shift::of_samples(copy, &baseline)),
    };
    seen.judge(variant.len().min(baseline.len()), direction)
}

fn logs(values: &[f64]) -> Option<Vec<f64>> {
    let log = |value: &f64| (value.is_finite() && *value > 0.0).then(|| value.ln());
    values.iter().map(log).collect()
}

fn pairs<'a>(
    variant: &'a [Option<f64>],
    baseline: &'a [Option<f64>],
) -> impl Iterator<Item = (f64, f64)> + 'a {
    variant.iter().zip(baseline).filter_map(|(v, b)| Some(((*v)?, (*b)?)))
}

fn differences(variant: &[Option<f64>], baseline: &[Option<f64>]) -> Vec<f64> {
    pairs(variant, baseline).map(|(v, b)| v - b).collect()
}

fn log_ratios(variant: &[Option<f64>], baseline: &[Option<f64>]) -> Option<Vec<f64>> {
    let (variant, baseline): (Vec<f64>, Vec<f64>) = pairs(variant, baseline).unzip();
    Some(logs(&variant)?.iter().zip(logs(&baseline)?).map(|(v, b)| v - b).collect())
}

/// What was seen, of ratios all on logarithms: there a margin and a ratio are symmetric around 0.
struct Seen {
    scale: Scale,
    /// Two that differ by no more are the same.
    margin: f64,
    /// The variant beside the baseline.
    of_baseline: Shift,
    /// The variant beside the copy of the baseline.
    of_copy: Option<Shift>,
    /// The copy beside the baseline.
    noise: Option<Shift>,
}

impl Seen {
    fn judge(self, runs: usize, direction: Direction) -> Option<Verdict> {
        if direction == Direction::None {
            return None;
        }
        let outcome = self.outcome(direction);
        let value = |it: f64| if self.scale == Scale::Ratio { it.exp() } else { it };
        let values = |it: Interval| Interval { low: value(it.low), high: value(it.high) };
        let more_runs = || match self.factor_to_settle() {
            Some(factor) => (runs as f64 * factor).ceil() as usize - runs,
            None => MIN_PAIRS.saturating_sub(runs),
        };
        Some(Verdict {
            outcome,
            scale: self.scale,
            centre: value(self.of_baseline.centre),
            interval: self.of_baseline.interval.map(values),
            noise: self.noise.and_then(|noise| noise.interval).map(values),
            runs,
            more_runs: (outcome == Outcome::Undecided).then(|| more_runs().max(1)),
        })
    }

    fn outcome(&self, direction: Direction) -> Outcome {
        let margin = self.margin;
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
            Some(Shift { interval: None, .. }) => false,
            Some(Shift { interval: Some(of_copy), .. }) => {
                is_beyond(0.0, &seen, sign) && is_beyond(0.0, &of_copy, sign)
            }
        };
        match is_apart {
            false => Outcome::Undecided,
            true if (sign > 0.0) == (direction == Direction::Higher) => Outcome::Better,
            true => Outcome::Worse,
        }
    }

    /// How many times as many runs settle it, whichever way is shorter: intervals shrink with the
    /// square root of the number of runs, until they lie beyond 0 or within the margin. `None`
    /// where there is no interval yet.
    fn factor_to_settle(&self) -> Option<f64> {
        let margin = self.margin;
        let half = |shift: &Shift| Some((shift.interval?.high - shift.interval?.low) / 2.0);
        let squared = |half: f64, room: f64| match room > 0.0 {
            true => (half / room).powi(2),
            false => f64::INFINITY,
        };
        let centre = self.of_baseline.centre;
        let seen = half(&self.of_baseline)?;
        let beyond = match &self.of_copy {
            None => squared(seen, centre.abs() - margin),
            // On different sides of the two: this way it will not be settled.
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

    /// Standard deviation of a sample's logarithm, without what its whole round has in common, on
    /// a machine of two virtual CPUs with other work beside it; `docs/methodology.md` says how
    /// this and the next were measured.
    const NOISE: f64 = 0.0183;
    /// Share of samples that something delayed, and by how much.
    const DELAYED: f64 = 0.035;
    const DELAY: f64 = 0.15;

    /// Samples around 100 with the noise of a virtual machine: a common drift per round, a
    /// spread, and some samples that something else delayed.
    struct Machine(StdRng);

    impl Machine {
        fn new(seed: u64) -> Self {
            Self(StdRng::seed_from_u64(seed))
        }

        /// Sum of twelve uniform values: normal for what is tested here.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.0.random_range(0.0..1.0)).sum::<f64>() - 6.0
        }

        /// One column per factor.
        fn run(&mut self, factors: &[f64], samples: usize) -> Vec<Vec<Option<f64>>> {
            let mut columns = vec![Vec::new(); factors.len()];
            for _ in 0..samples {
                let drift = 0.1 * self.normal();
                for (column, factor) in columns.iter_mut().zip(factors) {
                    let delay = if self.0.random_bool(DELAYED) { DELAY } else { 0.0 };
                    let noise = NOISE * self.normal() + drift + delay;
                    column.push(Some(100.0 * factor * noise.exp()));
                }
            }
            columns
        }
    }

    fn outcomes(factor: f64, samples: usize, wanted: Outcome) -> usize {
        let mut machine = Machine::new(7);
        let trial = |_: &usize| {
            let columns = machine.run(&[1.0, 1.0, factor], samples);
            let [baseline, copy, variant] = &columns[..] else { panic!("three columns") };
            paired(variant, baseline, Some(copy), Direction::Lower).unwrap().outcome == wanted
        };
        (0..100).filter(trial).count()
    }

    /// Samples that the lab takes where nothing is said.
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
        let verdict = paired(&columns[1], &columns[0], None, Direction::Lower).unwrap();
        assert_eq!((verdict.outcome, verdict.runs), (Outcome::Undecided, few));
        assert_eq!(verdict.more_runs, Some(3), "six are the fewest with an interval");
    }

    #[test]
    fn the_promised_number_of_runs_settles_it() {
        let (mut settled, mut undecided) = (0, 0);
        for seed in 0..100 {
            let run = |samples| {
                let columns = Machine::new(seed).run(&[1.0, 1.0, 1.03], samples);
                paired(&columns[2], &columns[0], Some(&columns[1]), Direction::Lower).unwrap()
            };
            // A run with the same seed and more rounds begins with the same rounds.
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
        let judge = |direction| paired(&columns[2], &columns[0], Some(&columns[1]), direction);
        assert_eq!(judge(Direction::Lower).unwrap().outcome, Outcome::Worse);
        assert_eq!(judge(Direction::Higher).unwrap().outcome, Outcome::Better);
        assert_eq!(judge(Direction::None), None);
    }

    #[test]
    fn runs_apart_are_compared_without_pairing() {
        let column = |seed, factor| -> Vec<f64> {
            Machine::new(seed).run(&[factor], 40)[0].iter().copied().flatten().collect()
        };
        let (baseline, copy, double) = (column(1, 1.0), column(2, 1.0), column(3, 2.0));
        let verdict = unpaired(&double, &baseline, Some(&copy), Direction::Higher).unwrap();
        assert_eq!(verdict.outcome, Outcome::Better);
        assert!((1.8..2.2).contains(&verdict.centre), "{}", verdict.centre);
        let verdict = unpaired(&copy, &baseline, None, Direction::Higher).unwrap();
        assert_eq!(verdict.outcome, Outcome::Undecided, "the drift of 10 % is not paired away");
    }

    #[test]
    fn what_has_no_ratio_has_no_verdict() {
        let direction = Direction::Lower;
        assert_eq!(paired(&[Some(0.0)], &[Some(1.0)], None, direction), None);
        assert_eq!(paired(&[Some(1.0)], &[Some(-1.0)], None, direction), None);
        assert_eq!(paired(&[Some(1.0)], &[None], None, direction), None);
        assert_eq!(unpaired(&[], &[1.0], None, direction), None);
    }

    /// Columns of a clock with ticks of 1 ms, in seconds.
    fn ticks(values: [u32; 8]) -> Vec<Option<f64>> {
        values.iter().map(|ticks| Some(f64::from(*ticks) / 1000.0)).collect()
    }

    #[test]
    fn near_zero_differences_are_judged() {
        let baseline = ticks([0, 1, 0, 2, 1, 0, 1, 0]);
        let copy = ticks([1, 0, 0, 1, 2, 0, 0, 1]);
        let judge = |variant: &[Option<f64>]| {
            let direction = Direction::Lower;
            paired_differences(variant, &baseline, Some(&copy), direction, 0.005).unwrap()
        };
        // Three times as much by its ratio, and nothing by the clock.
        let same = judge(&ticks([2, 3, 1, 3, 2, 2, 3, 1]));
        assert_eq!((same.outcome, same.scale), (Outcome::Same, Scale::Difference));
        assert!((0.0..0.003).contains(&same.centre), "{same:?}");
        let worse = judge(&ticks([60, 61, 60, 62, 61, 60, 61, 60]));
        assert_eq!(worse.outcome, Outcome::Worse);
        assert!((worse.centre - 0.06).abs() < 0.001, "{worse:?}");
        assert!(worse.interval.unwrap().low > 0.05 && worse.noise.is_some(), "{worse:?}");
        let all_zero = vec![Some(0.0); 8];
        let none = paired_differences(&all_zero, &all_zero, None, Direction::Lower, 0.0).unwrap();
        assert_eq!((none.outcome, none.centre), (Outcome::Same, 0.0));
    }
}
