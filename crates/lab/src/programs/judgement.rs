//! From a run to verdicts: every allocator against the baseline, in every metric.

use crate::results::{Cell, Direction, Metric, Run};
use crate::statistics::verdict::{self, Outcome, Verdict};
use serde_json::{Value, json};
use std::fmt;

/// More runs than this are not worth a proposal.
const MOST_MORE: usize = 1000;

/// A verdict on one metric of one allocator.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    verdict: Verdict,
    direction: Direction,
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
            interval.is_some_and(|interval| (interval.high - interval.low) / 2.0 <= share)
        };
        !judged.is_empty() && judged.iter().all(is_within)
    }

    /// How many runs that will take, if it goes on like this.
    pub(super) fn runs_until_within(&self, share: f64) -> Option<usize> {
        let needed = |judged: &Judged| {
            let interval = judged.verdict.interval?;
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
    let verdict = verdict::paired(&values(variant), &baseline, copy.as_deref(), direction)?;
    Some(Judged { verdict, direction: metric.direction })
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
        let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
        let difference = format!("{} %", percent(self.verdict.ratio));
        match self.verdict.interval {
            None => difference,
            Some(it) => format!("{difference} [{}, {}]", percent(it.low), percent(it.high)),
        }
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
        let interval = self.verdict.interval?;
        Some((interval.low - 1.0).abs().max((interval.high - 1.0).abs()))
    }

    /// For programs.
    pub(super) fn as_json(&self) -> Value {
        json!({
            "verdict": self.word(),
            "ratio": self.verdict.ratio,
            "interval": self.verdict.interval.map(|it| [it.low, it.high]),
            "noise": self.verdict.noise.map(|it| [it.low, it.high]),
            "pairs": self.verdict.runs,
            "more_runs": self.verdict.more_runs,
        })
    }
}
