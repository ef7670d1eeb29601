//! Judges a column over rows of a selection.

use super::decision::{Decision, Figures, MARGIN, Rule};
use super::selection::mean_of;
use super::{Column, Judgement, Outcome, Reason, Row, Selection};
use crate::results::{Metric, Relation};
use crate::statistics;

impl<'a> Selection<'a> {
    /// Judges a variant on one row, or by the geometric mean of several rows.
    pub fn judge(&self, column: &Column<'a>, rows: &[Row<'a>], metric: &Metric) -> Judgement {
        let baseline = self.baseline();
        let relation = match rows {
            [row] if !self.has_ratios(column, *row, metric) => Relation::Difference,
            _ => Relation::Ratio,
        };
        let decision = match std::ptr::eq(column, baseline) {
            true => Err(Reason::Baseline),
            false => self.decide(column, rows, metric, relation),
        };
        let (workload, tasks) = match rows {
            [row] => (row.workload.to_owned(), Some(row.tasks)),
            _ => (mean_of(rows.len()), None),
        };
        Judgement {
            metric: metric.clone(),
            workload,
            tasks,
            variant: column.label.clone(),
            baseline: baseline.label.clone(),
            is_copy: self.is_copy(column),
            is_paired: self.is_paired(column),
            relation,
            outcome: decision.map_or_else(Outcome::NoVerdict, |it| it.outcome),
            estimate: decision.ok().map(|it| it.estimate),
            noise: decision.ok().and_then(|it| it.noise),
            pairs: decision.map_or(0, |it| it.pairs),
            more_runs: decision.ok().and_then(|it| it.more_runs),
        }
    }

    /// Judges a variant over all rows in which every column has samples. If there is no such row,
    /// judges it over all rows, so that the judgement says why there is no verdict.
    pub fn judge_all(&self, column: &Column<'a>, metric: &Metric) -> Judgement {
        match &self.complete_rows(metric)[..] {
            [] => self.judge(column, &self.rows, metric),
            rows => self.judge(column, rows, metric),
        }
    }

    fn decide(
        &self,
        column: &Column<'a>,
        rows: &[Row<'a>],
        metric: &Metric,
        relation: Relation,
    ) -> Result<Decision, Reason> {
        let of = |column: &Column<'a>| {
            let cells: Vec<_> = rows.iter().map(|row| (*row, column)).collect();
            self.figures(&cells, metric, relation)
        };
        let of_baseline = |reason| match reason {
            Reason::Failed => Reason::BaselineFailed,
            reason => reason,
        };
        let (variant, baseline) = (of(column)?, of(self.baseline()).map_err(of_baseline)?);
        let copy = self.copy().filter(|_| !self.is_copy(column)).and_then(|copy| of(copy).ok());
        let margin = match (relation, rows) {
            (Relation::Difference, [row]) => {
                let median = self.median(self.baseline(), *row, metric).unwrap_or(0.0);
                metric.near_zero.max(MARGIN * median.abs())
            }
            _ => MARGIN.ln_1p(),
        };
        let (direction, is_paired) = (metric.direction, self.is_paired(column));
        let rule = Rule { relation, direction, margin, is_paired };
        rule.judge(&variant, &baseline, copy.as_deref()).ok_or(Reason::NoFigure)
    }

    /// Returns whether ratios mean something: all figures are positive, the baseline is not near 0.
    fn has_ratios(&self, column: &Column<'a>, row: Row<'a>, metric: &Metric) -> bool {
        let of = |column| self.samples(column, row, metric);
        let (variant, baseline) = (of(column), of(self.baseline()));
        statistics::median(&baseline).is_none_or(|median| median > metric.near_zero)
            && variant.iter().chain(&baseline).all(|value| *value > 0.0)
    }

    /// Returns for each round the mean of the figures of `cells`, or of their logarithms for a
    /// ratio. A round in which a cell has no figure has no mean.
    pub(super) fn figures(
        &self,
        cells: &[(Row<'a>, &Column<'a>)],
        metric: &Metric,
        relation: Relation,
    ) -> Result<Figures, Reason> {
        let mut columns = Vec::with_capacity(cells.len());
        for &(row, column) in cells {
            let mut samples = column.run.samples_of(column.cell(row));
            if column.run.meta.strict && samples.any(|sample| sample.failure.is_some()) {
                return Err(Reason::Failed);
            }
            let mut values = self.values(column, row, metric);
            if relation == Relation::Ratio {
                if values.iter().flatten().any(|value| !(value.is_finite() && *value > 0.0)) {
                    return Err(Reason::NoRatio);
                }
                values.iter_mut().flatten().for_each(|value| *value = value.ln());
            }
            columns.push(values);
        }
        let rounds = columns.iter().map(Vec::len).min().unwrap_or(0);
        let mean = |round: usize| {
            let sum = columns.iter().map(|column| column[round]).sum::<Option<f64>>();
            Some(sum? / columns.len() as f64)
        };
        Ok((0..rounds).map(mean).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::{run, run_of};
    use crate::results::{Direction, Run};

    fn judged(run: &Run, variant: &str) -> Judgement {
        let selection = Selection::of(run);
        let column = selection.column(variant).unwrap();
        selection.judge(column, &selection.rows, selection.metric)
    }

    #[test]
    fn means_leave_out_rounds_with_gaps() {
        let metric = Metric::new("time", "ns", Direction::Lower, "value").primary();
        let cell = |workload: &str, variant: &str, value: f64| {
            (workload.to_owned(), 1, variant.to_owned(), vec![value; 3])
        };
        let cells =
            [cell("v", "a", 1.0), cell("w", "a", 1.0), cell("v", "b", 2.0), cell("w", "b", 8.0)];
        let mut run = run_of("test", metric, &cells.to_vec());
        let mean = judged(&run, "b");
        assert_eq!((mean.workload.as_str(), mean.tasks), ("geometric mean of 2", None));
        assert!((mean.ratio().unwrap() - 4.0).abs() < 1e-9 && mean.pairs == 3, "{mean:?}");
        run.samples.last_mut().unwrap().measurement = None;
        assert_eq!(judged(&run, "b").pairs, 2);
    }

    #[test]
    fn what_cannot_be_said_has_its_reason() {
        let (some, none) = ([Some(1.0), Some(2.0)], [None, None]);
        let mut run = run("a", &[("a", &some), ("b", &none), ("c", &[Some(1.0), None])]);
        let outcome = |run: &Run, variant| judged(run, variant).outcome;
        assert_eq!(outcome(&run, "a"), Outcome::NoVerdict(Reason::Baseline));
        assert_eq!(outcome(&run, "b"), Outcome::NoVerdict(Reason::NoFigure));
        assert_eq!(outcome(&run, "c"), Outcome::Undecided, "one round is left");
        run.meta.strict = true;
        run.samples.last_mut().unwrap().failure = Some("signal 11".to_owned());
        assert_eq!(outcome(&run, "c"), Outcome::NoVerdict(Reason::Failed));
    }

    fn near_zero(baseline: [f64; 8], variant: [f64; 8]) -> Judgement {
        let metric = Metric::new("sys", "s", Direction::Lower, "value").digits(3).near_zero(0.01);
        let cell =
            |name: &str, values: [f64; 8]| ("w".to_owned(), 1, name.to_owned(), values.to_vec());
        let cells = vec![cell("a", baseline), cell("b", variant)];
        judged(&run_of("test", metric.primary(), &cells), "b")
    }

    fn said(judgement: &Judgement) -> String {
        format!("{} {}", judgement.outcome.word(), judgement.change_text())
    }

    #[test]
    fn where_the_baseline_is_near_zero_differences_are_printed() {
        let ticks = [0.0, 0.001, 0.0, 0.002, 0.001, 0.0, 0.001, 0.0];
        let same = near_zero(ticks, ticks.map(|it| it + 0.002));
        assert_eq!(said(&same), "same +0.002 s [+0.002, +0.002]");
        assert_eq!(same.reach(), None);
        let worse = near_zero(ticks, ticks.map(|it| it + 0.25));
        assert_eq!(said(&worse), "worse +0.250 s [+0.250, +0.250]");
        let json = worse.json();
        assert!(json["ratio"].is_null() && json["difference"].as_f64() == Some(0.25), "{json}");
        assert_eq!(said(&near_zero(ticks, ticks)), "same +0.000 s [+0.000, +0.000]");
    }

    #[test]
    fn above_that_ratios_are_printed() {
        let twice = near_zero([0.5; 8], [1.0; 8]);
        assert_eq!(said(&twice), "worse +100.0 % [+100.0, +100.0]");
        assert_eq!(twice.text(), "2.000 [2.000, 2.000]");
        let json = twice.json();
        let ratio = json["ratio"].as_f64().unwrap();
        assert!((ratio - 2.0).abs() < 1e-9 && json["difference"].is_null(), "{json}");
        // 0 has no logarithm.
        let none = near_zero([0.5; 8], [0.0; 8]);
        assert_eq!(said(&none), "better -0.500 s [-0.500, -0.500]");
    }
}
