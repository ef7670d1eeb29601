//! A judgement with its grounds, and its forms as text and JSON.

use crate::results::{Metric, Relation};
use crate::statistics::{Estimate, Interval};
use crate::table;
use serde_json::{Value, json};

/// The verdict on a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Better than the baseline.
    Better,
    /// Worse than the baseline.
    Worse,
    /// Below the baseline, in a metric without a better direction.
    Lower,
    /// Above the baseline, in a metric without a better direction.
    Higher,
    /// Within the margin of the baseline.
    Same,
    /// Too few samples for the noise.
    Undecided,
    /// No verdict, for this reason.
    NoVerdict(Reason),
}

/// The reason why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The variant is the baseline itself.
    Baseline,
    /// Samples failed, and the run is strict.
    Failed,
    /// Samples of the baseline failed, and the run is strict.
    BaselineFailed,
    /// No round has figures of both variant and baseline.
    NoFigure,
    /// A figure is not positive, so ratios have no geometric mean.
    NoRatio,
}

impl Outcome {
    /// Returns the outcome in a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Same => "same",
            Self::Undecided => "undecided",
            Self::NoVerdict(Reason::Baseline) => "baseline",
            Self::NoVerdict(Reason::Failed) => "failed",
            Self::NoVerdict(Reason::BaselineFailed) => "the baseline failed",
            Self::NoVerdict(Reason::NoFigure) => "no figure",
            Self::NoVerdict(Reason::NoRatio) => "no ratio",
        }
    }

    /// Returns true if variant and baseline differ.
    pub fn is_difference(self) -> bool {
        matches!(self, Self::Better | Self::Worse | Self::Lower | Self::Higher)
    }
}

/// The comparison of a variant with the baseline, in one metric, on one workload or over several.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The metric.
    pub metric: Metric,
    /// Name of the workload, or the number of workloads in a mean.
    pub workload: String,
    /// Number of tasks; `None` for a mean.
    pub tasks: Option<u32>,
    /// Label of the judged variant.
    pub variant: String,
    /// Label of the baseline.
    pub baseline: String,
    /// True for the A/A copy of the baseline, which shows only noise.
    pub is_copy: bool,
    /// True if the variant ran in the same rounds as the baseline.
    pub is_paired: bool,
    /// The verdict.
    pub outcome: Outcome,
    /// Whether estimate and noise are ratios or differences.
    pub relation: Relation,
    /// The variant's ratio to the baseline or difference from it; `None` without a verdict.
    pub estimate: Option<Estimate>,
    /// The interval of the A/A copy relative to the baseline: the noise between equal variants.
    pub noise: Option<Interval>,
    /// Number of pairs; if unpaired, number of samples of the side that has fewer.
    pub pairs: usize,
    /// Further pairs that would decide an undecided judgement.
    pub more_runs: Option<usize>,
}

impl Judgement {
    /// Returns the 95 % interval.
    pub fn interval(&self) -> Option<Interval> {
        self.estimate?.interval
    }

    /// Returns the centre of a ratio; 1 for the baseline itself.
    pub fn ratio(&self) -> Option<f64> {
        match self.outcome {
            Outcome::NoVerdict(Reason::Baseline) => Some(1.0),
            _ => self.estimate.filter(|_| self.relation == Relation::Ratio).map(|it| it.centre),
        }
    }

    /// Returns the interval of a ratio.
    pub fn ratios(&self) -> Option<Interval> {
        self.interval().filter(|_| self.relation == Relation::Ratio)
    }

    /// Returns how far from 1 the interval of ratios reaches.
    pub fn reach(&self) -> Option<f64> {
        let Interval { low, high } = self.ratios()?;
        Some((low - 1.0).abs().max((high - 1.0).abs()))
    }

    /// Writes `1.004 [0.998, 1.010]`, or a difference with its sign and unit.
    pub fn text(&self) -> String {
        written(self.estimate, self.unit(), |value| self.value(value))
    }

    /// Writes [`text`](Self::text) without the interval.
    pub fn centre_text(&self) -> String {
        let centre = self.estimate.map(|it| Estimate { interval: None, ..it });
        written(centre, self.unit(), |value| self.value(value))
    }

    /// Writes `+0.4 % [-0.2, +1.0]`, or a difference with its sign and unit.
    pub fn change_text(&self) -> String {
        match self.relation {
            Relation::Ratio => {
                written(self.estimate, "%", |value| format!("{:+.1}", (value - 1.0) * 100.0))
            }
            Relation::Difference => self.text(),
        }
    }

    fn unit(&self) -> &str {
        if self.relation == Relation::Ratio { "" } else { &self.metric.unit }
    }

    fn value(&self, value: f64) -> String {
        match self.relation {
            Relation::Ratio => table::multiple(value),
            Relation::Difference => {
                let (digits, unit) =
                    (self.metric.decimals, 10f64.powi(self.metric.decimals.into()));
                // Rounding can leave a negative zero.
                format!("{:+.*}", digits.into(), (value * unit).round() / unit + 0.0)
            }
        }
    }

    /// Writes the verdict, and the number of further samples that would decide an undecided one.
    pub fn said(&self) -> String {
        if let Outcome::NoVerdict(reason) = self.outcome {
            return if reason == Reason::Baseline { String::new() } else { "-".to_owned() };
        }
        if self.is_copy {
            let reach = self.reach().map(|reach| format!(": {:.1} %", reach * 100.0));
            return format!("noise{}", reach.unwrap_or_default());
        }
        let apart = if self.is_paired { "" } else { ", unpaired" };
        // Without an interval, `more_runs` counts only the pairs that an interval needs.
        let least = if self.interval().is_none() { " at least" } else { "" };
        let more = self.more_runs.map_or(String::new(), |more| format!(", {more} more{least}"));
        format!("{}{more}{apart}", self.outcome.word())
    }

    /// Returns the judgement as JSON. Without a verdict `verdict` is null and `reason` says why.
    pub fn json(&self) -> Value {
        let (verdict, reason) = match self.outcome {
            Outcome::NoVerdict(_) => (None, Some(self.outcome.word())),
            outcome => (Some(outcome.word()), None),
        };
        let centre =
            |relation| self.estimate.filter(|_| self.relation == relation).map(|it| it.centre);
        json!({
            "workload": self.workload,
            "tasks": self.tasks,
            "variant": self.variant,
            "baseline": self.baseline,
            "metric": self.metric.name,
            "verdict": verdict,
            "reason": reason,
            "ratio": centre(Relation::Ratio),
            "difference": centre(Relation::Difference),
            "interval": self.interval().map(|it| [it.low, it.high]),
            "noise": self.noise.map(|it| [it.low, it.high]),
            "pairs": self.pairs,
            "more_runs": self.more_runs,
        })
    }
}

/// Writes the centre with its unit, and the interval in brackets; nothing without an estimate.
pub fn written(estimate: Option<Estimate>, unit: &str, print: impl Fn(f64) -> String) -> String {
    let Some(Estimate { centre, interval }) = estimate else { return String::new() };
    let centre = format!("{} {unit}", print(centre)).trim_end().to_owned();
    match interval {
        None => centre,
        Some(Interval { low, high }) => format!("{centre} [{}, {}]", print(low), print(high)),
    }
}
