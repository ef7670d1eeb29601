//! From a run to verdicts: every allocator against the baseline, in every metric.

use quarry_harness::results::{Cell, Direction, Metric, Run};
use quarry_harness::statistics::verdict::{self, Outcome, Scale, Verdict};
use quarry_harness::statistics::{self, Interval};
use serde_json::{Value, json};
use std::fmt;

/// More runs than this are not worth a proposal.
const MOST_MORE: usize = 1000;

/// A verdict on one metric of one allocator.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    verdict: Verdict,
    direction: Direction,
    unit: String,
    decimals: u8,
}

/// What is left of a variant's runs.
#[derive(Clone, Debug)]
struct Row {
    variant: String,
    failed: usize,
    taken: usize,
    judged: Vec<(String, Judged)>,
}

/// All verdicts on a run.
#[derive(Clone, Debug)]
pub(super) struct Judgement {
    rows: Vec<Row>,
    primary: String,
}

impl Judgement {
    /// Passes judgement.
    pub(super) fn of(run: &Run) -> Self {
        let meta = &run.meta;
        let counts = |variant: &str| {
            let cell = Cell { workload: &meta.workloads[0].name, tasks: 1, variant };
            let failed = run.samples_of(cell).filter(|it| it.failure.is_some()).count();
            (failed, run.samples_of(cell).count())
        };
        let is_judged = |variant: &str| counts(variant).0 == 0;
        let rows = meta.variants.iter().map(|variant| {
            let (failed, taken) = counts(&variant.name);
            let both = variant.name != meta.baseline
                && is_judged(&variant.name)
                && is_judged(&meta.baseline);
            let metrics = meta.metrics.iter().filter(|_| both);
            let judged = metrics.filter_map(|metric| {
                Some((metric.name.clone(), judge(run, &variant.name, metric)?))
            });
            Row { variant: variant.name.clone(), failed, taken, judged: judged.collect() }
        });
        Self { rows: rows.collect(), primary: meta.primary().name.clone() }
    }

    fn row(&self, variant: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.variant == variant)
    }

    /// Whether counted runs of a variant failed: then nothing is said of the others.
    pub(super) fn has_failed(&self, variant: &str) -> bool {
        self.row(variant).is_some_and(|row| row.failed > 0)
    }

    /// How many runs of a variant count, or how many failed.
    pub(super) fn runs(&self, variant: &str) -> String {
        match self.row(variant) {
            None => "0".to_owned(),
            Some(row) if row.failed > 0 => format!("{} of {} failed", row.failed, row.taken),
            Some(row) => row.taken.to_string(),
        }
    }

    /// The verdict on a metric of a variant.
    pub(super) fn of_metric(&self, variant: &str, metric: &Metric) -> Option<&Judged> {
        let judged = &self.row(variant)?.judged;
        judged.iter().find(|(name, _)| *name == metric.name).map(|(_, judged)| judged)
    }

    fn primary_of<'a>(&'a self, row: &'a Row) -> Option<&'a Judged> {
        row.judged.iter().find(|(name, _)| *name == self.primary).map(|(_, judged)| judged)
    }

    /// Whether the primary metric of every variant that can be judged is known to within `share`.
    pub(super) fn is_within(&self, share: f64) -> bool {
        let judged: Vec<_> = self.rows.iter().filter_map(|row| self.primary_of(row)).collect();
        let is_within = |judged: &&Judged| {
            let interval = judged.verdict.interval;
            // A share of nothing is nothing.
            judged.verdict.scale == Scale::Difference
                || interval.is_some_and(|interval| (interval.high - interval.low) / 2.0 <= share)
        };
        !judged.is_empty() && judged.iter().all(is_within)
    }

    /// How many runs that will take, if it goes on like this.
    pub(super) fn runs_until_within(&self, share: f64) -> Option<usize> {
        let needed = |judged: &Judged| {
            let interval = judged.ratios()?;
            let factor = ((interval.high - interval.low) / 2.0 / share).powi(2);
            Some((judged.verdict.runs as f64 * factor).ceil() as usize)
        };
        self.rows.iter().filter_map(|row| needed(self.primary_of(row)?)).max()
    }

    /// What to do where the primary metric is undecided.
    pub(super) fn advice(&self, run: &Run) -> Vec<String> {
        let others = self.rows.iter().filter(|row| {
            run.meta.variant(&row.variant).is_some_and(|variant| variant.copy_of.is_none())
        });
        let undecided = others.filter_map(|row| {
            let judged = self.primary_of(row)?;
            (judged.verdict.outcome == Outcome::Undecided).then_some((row, judged))
        });
        let line = |(row, judged): (&Row, &Judged)| {
            let name = format!("{}: undecided in {}", row.variant, self.primary);
            match judged.verdict.more_runs.filter(|more| *more <= MOST_MORE) {
                Some(more) => format!(
                    "{name}; about {more} more runs would settle it (--runs {})",
                    judged.verdict.runs + more
                ),
                None => format!(
                    "{name}; too close to the noise for more runs: a quieter machine or a longer \
                     workload would settle it"
                ),
            }
        };
        undecided.map(line).collect()
    }
}

fn judge(run: &Run, variant: &str, metric: &Metric) -> Option<Judged> {
    let workload = &run.meta.workloads[0].name;
    let values = |variant: &str| run.values(Cell { workload, tasks: 1, variant }, metric);
    let baseline = values(&run.meta.baseline);
    let copy = run.meta.copy().filter(|copy| copy.name != variant);
    let copy = copy.map(|copy| values(&copy.name));
    // Where no direction is better, a verdict only says that there is a difference.
    let direction = match metric.direction {
        Direction::None => Direction::Lower,
        direction => direction,
    };
    let (variant, copy) = (values(variant), copy.as_deref());
    let verdict = match by_ratio(metric, &variant, &baseline) {
        true => verdict::paired(&variant, &baseline, copy, direction)?,
        false => {
            let margin = metric.zero().max(verdict::MARGIN * median(&baseline).abs());
            verdict::paired_differences(&variant, &baseline, copy, direction, margin)?
        }
    };
    let unit = metric.unit.clone();
    Some(Judged { verdict, direction: metric.direction, unit, decimals: metric.decimals })
}

/// Whether a ratio says something: where the baseline is well above zero, and nothing is 0.
fn by_ratio(metric: &Metric, variant: &[Option<f64>], baseline: &[Option<f64>]) -> bool {
    let is_positive = |column: &[Option<f64>]| column.iter().flatten().all(|value| *value > 0.0);
    median(baseline) > metric.zero() && is_positive(variant) && is_positive(baseline)
}

fn median(column: &[Option<f64>]) -> f64 {
    let present: Vec<f64> = column.iter().copied().flatten().collect();
    statistics::median(&present).unwrap_or(0.0)
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.word(), self.difference())
    }
}

impl Judged {
    /// The difference with its interval, and no verdict: for the baseline's own copy, of which
    /// everything is noise.
    pub(super) fn difference(&self) -> String {
        let is_ratio = self.verdict.scale == Scale::Ratio;
        let decimals = usize::from(self.decimals);
        let text = |value: f64| match is_ratio {
            true => format!("{:+.1}", (value - 1.0) * 100.0),
            false => {
                let unit = 10f64.powi(i32::from(self.decimals));
                // No negative zero.
                format!("{:+.decimals$}", (value * unit).round() / unit + 0.0)
            }
        };
        let unit = if is_ratio { "%" } else { &self.unit };
        let difference = format!("{} {unit}", text(self.verdict.centre));
        let difference = difference.trim_end();
        match self.verdict.interval {
            None => difference.to_owned(),
            Some(it) => format!("{difference} [{}, {}]", text(it.low), text(it.high)),
        }
    }

    /// The interval of ratios, where it is one.
    fn ratios(&self) -> Option<Interval> {
        self.verdict.interval.filter(|_| self.verdict.scale == Scale::Ratio)
    }

    fn word(&self) -> &'static str {
        match (self.direction, self.verdict.outcome) {
            (Direction::None, Outcome::Better) => "lower",
            (Direction::None, Outcome::Worse) => "higher",
            (_, outcome) => outcome.word(),
        }
    }

    /// How far the interval reaches from "no difference", as a share.
    pub(super) fn floor(&self) -> Option<f64> {
        let interval = self.ratios()?;
        Some((interval.low - 1.0).abs().max((interval.high - 1.0).abs()))
    }

    /// For programs.
    pub(super) fn as_json(&self) -> Value {
        let centre = |scale| (self.verdict.scale == scale).then_some(self.verdict.centre);
        json!({
            "verdict": self.word(),
            "ratio": centre(Scale::Ratio),
            "difference": centre(Scale::Difference),
            "interval": self.verdict.interval.map(|it| [it.low, it.high]),
            "noise": self.verdict.noise.map(|it| [it.low, it.high]),
            "pairs": self.verdict.runs,
            "more_runs": self.verdict.more_runs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::examples::run_of;

    /// The verdict on a variant whose samples are these, in a metric that is near zero up to 10 ms.
    fn judged(baseline: [f64; 8], variant: [f64; 8]) -> Judged {
        let metric = Metric::new("sys", "s", Direction::Lower, "value").digits(3).near_zero(0.01);
        let cell =
            |name: &str, values: [f64; 8]| ("w".to_owned(), 1, name.to_owned(), values.to_vec());
        let metric = metric.primary();
        let run = run_of("compare", metric.clone(), &vec![cell("a", baseline), cell("b", variant)]);
        Judgement::of(&run).of_metric("b", &metric).expect("a verdict").clone()
    }

    #[test]
    fn where_the_baseline_is_near_zero_differences_are_printed() {
        let ticks = [0.0, 0.001, 0.0, 0.002, 0.001, 0.0, 0.001, 0.0];
        let judged_against_ticks = |variant: f64| judged(ticks, ticks.map(|it| it + variant));
        let same = judged_against_ticks(0.002);
        assert_eq!(same.to_string(), "same +0.002 s [+0.002, +0.002]");
        assert_eq!(same.floor(), None);
        let worse = judged_against_ticks(0.25);
        assert_eq!(worse.to_string(), "worse +0.250 s [+0.250, +0.250]");
        let json = worse.as_json();
        assert!(json["ratio"].is_null() && json["difference"].as_f64() == Some(0.25), "{json}");
        let equal = judged(ticks, ticks);
        assert_eq!(equal.to_string(), "same +0.000 s [+0.000, +0.000]");
    }

    #[test]
    fn above_that_ratios_are_printed() {
        let base = [0.5; 8];
        assert_eq!(judged(base, [1.0; 8]).to_string(), "worse +100.0 % [+100.0, +100.0]");
        let json = judged(base, [1.0; 8]).as_json();
        let ratio = json["ratio"].as_f64().unwrap();
        assert!((ratio - 2.0).abs() < 1e-9 && json["difference"].is_null(), "{json}");
        // Nothing has no logarithm, and was no verdict.
        assert_eq!(judged(base, [0.0; 8]).to_string(), "better -0.500 s [-0.500, -0.500]");
    }
}
