//! Conclusions from the judgements on a run: whether it is long enough, and what to do next.

use quarry_harness::judge::{Judgement, Outcome, Reason, Selection};
use quarry_harness::results::{Metric, Relation, Run};
use quarry_harness::statistics::MIN_PAIRS;
use quarry_harness::table::counted;

/// Maximum number of further runs that the advice proposes.
const MOST_MORE: usize = 1000;

#[derive(Clone, Debug)]
pub(super) struct Judgements(Vec<Judgement>);

impl Judgements {
    pub(super) fn of(run: &Run) -> Self {
        let selection = Selection::of(run);
        let mut all = Vec::new();
        for column in &selection.columns[1..] {
            for row in &selection.rows {
                let judge = |metric| selection.judge(column, &[*row], metric);
                all.extend(run.meta.metrics.iter().map(judge));
            }
        }
        Self(all)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Judgement> {
        self.0.iter()
    }

    /// Returns the judgement on a metric of a variant; `None` for the baseline.
    pub(super) fn get(&self, workload: &str, variant: &str, metric: &Metric) -> Option<&Judgement> {
        let is_it = |it: &&Judgement| {
            it.workload == workload && it.variant == variant && it.metric.name == metric.name
        };
        self.0.iter().find(is_it)
    }

    fn primary(&self) -> impl Iterator<Item = &Judgement> {
        self.0.iter().filter(|it| it.metric.primary && it.estimate.is_some())
    }

    /// Returns true if half the width of each interval of the primary metric is at most `share`.
    pub(super) fn is_within(&self, share: f64) -> bool {
        let is_within = |it: &Judgement| {
            // A metric that is judged by its difference has no share of the baseline.
            it.relation == Relation::Difference
                || it.ratios().is_some_and(|it| (it.high - it.low) / 2.0 <= share)
        };
        self.primary().next().is_some() && self.primary().all(is_within)
    }

    /// Predicts the number of runs after which [`is_within`](Self::is_within) holds.
    pub(super) fn runs_until_within(&self, share: f64) -> Option<usize> {
        let needed = |judgement: &Judgement| {
            let interval = judgement.ratios()?;
            let factor = ((interval.high - interval.low) / 2.0 / share).powi(2);
            Some((judgement.pairs as f64 * factor).ceil() as usize)
        };
        self.primary().filter_map(needed).max()
    }

    pub(super) fn advice(&self, workload: &str) -> Vec<String> {
        let line = |judgement: &Judgement| {
            let Judgement { variant, metric, pairs, more_runs, .. } = judgement;
            let name = format!("{variant}: undecided in {}", metric.name);
            match more_runs.filter(|more| *more <= MOST_MORE) {
                // Without an interval, the number of runs that would decide is unknown.
                Some(_) if judgement.interval().is_none() => format!(
                    "{name}; an interval takes {MIN_PAIRS} runs at least (--runs {MIN_PAIRS})"
                ),
                Some(more) => format!(
                    "{name}; about {} would settle it (--runs {})",
                    counted(more, "more run"),
                    pairs + more
                ),
                None => format!(
                    "{name}; too close to the noise for more runs: a quieter machine or a longer \
                     workload would settle it"
                ),
            }
        };
        let undecided = |it: &&Judgement| {
            it.workload == workload && it.outcome == Outcome::Undecided && !it.is_copy
        };
        self.primary().filter(undecided).map(line).collect()
    }
}

/// A cell of a table of verdicts.
pub(super) fn verdict(judgement: &Judgement) -> String {
    match judgement.outcome {
        Outcome::NoVerdict(Reason::Failed) => "failed".to_owned(),
        Outcome::NoVerdict(_) => "-".to_owned(),
        _ if judgement.is_copy => judgement.change_text(),
        outcome => format!("{} {}", outcome.word(), judgement.change_text()),
    }
}
