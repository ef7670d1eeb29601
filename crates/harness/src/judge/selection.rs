//! Variants of one or several runs side by side, the rows that they have in common, and the
//! judgement on each of them.

use super::decision::{Decision, Figures, MARGIN, Rule};
use super::{Judgement, Outcome, Reason};
use crate::nearest;
use crate::results::{Cell, Metric, Relation, Run, Variant};
use crate::statistics;
use crate::usage::Usage;
use anyhow::{Result, bail};

/// A variant of one of the runs, as a column of tables.
#[derive(Clone, Debug)]
pub struct Column<'a> {
    /// The run that it belongs to.
    pub run: &'a Run,
    /// Index of the run.
    pub place: usize,
    /// The variant.
    pub variant: &'a Variant,
    /// The name in tables; it includes the directory where two variants have the same name.
    pub label: String,
}

/// A workload with a number of tasks, as a row of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The workload.
    pub workload: &'a str,
    /// The number of tasks.
    pub tasks: u32,
}

impl Row<'_> {
    /// Returns the name in tables; it includes the number of tasks if `with_tasks`.
    pub fn label(&self, with_tasks: bool) -> String {
        match with_tasks {
            true => format!("{}-{}", self.workload, self.tasks),
            false => self.workload.to_owned(),
        }
    }
}

/// The variants and rows that are compared.
pub struct Selection<'a> {
    runs: Vec<(&'a str, &'a Run)>,
    /// The baseline first.
    pub columns: Vec<Column<'a>>,
    /// The rows that all runs have.
    pub rows: Vec<Row<'a>>,
    /// The metric that verdicts are about.
    pub metric: &'a Metric,
    warnings: Vec<String>,
}

impl<'a> Selection<'a> {
    /// Selects all of one run.
    ///
    /// # Panics
    /// Where the run is not valid: its baseline must be one of its variants.
    pub fn of(run: &'a Run) -> Self {
        Self::beside(vec![("", run)], None).expect("a run has something in common with itself")
    }

    /// Puts the variants of all runs side by side.
    ///
    /// # Errors
    /// Where the runs have nothing in common, or no variant has the name of the baseline.
    pub fn new(runs: &'a [(String, Run)], baseline: Option<&str>) -> Result<Self> {
        Self::beside(runs.iter().map(|(place, run)| (place.as_str(), run)).collect(), baseline)
    }

    fn beside(runs: Vec<(&'a str, &'a Run)>, baseline: Option<&str>) -> Result<Self> {
        let (first_place, first) = runs[0];
        let metric = first.meta.primary();
        for (place, run) in &runs[1..] {
            if run.meta.experiment != first.meta.experiment {
                bail!(Usage(format!(
                    "nothing in common: {first_place} is a run of {}, {place} one of {}",
                    first.meta.experiment, run.meta.experiment
                )));
            }
            if run.meta.primary() != metric {
                bail!(Usage(format!(
                    "nothing in common: {first_place} and {place} measured other things"
                )));
            }
        }
        let mut warnings = oddities(&runs);
        let rows = common_rows(&runs, &mut warnings)?;
        let columns = columns(&runs, baseline)?;
        Ok(Self { runs, columns, rows, metric, warnings })
    }

    /// Returns what a reader should know before the table.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the runs with their directories.
    pub fn runs(&self) -> &[(&'a str, &'a Run)] {
        &self.runs
    }

    /// Returns the variant that the others are compared with.
    pub fn baseline(&self) -> &Column<'a> {
        &self.columns[0]
    }

    /// Returns the column with this label.
    pub fn column(&self, label: &str) -> Option<&Column<'a>> {
        self.columns.iter().find(|column| column.label == label)
    }

    /// Returns the A/A copy of the baseline, if one ran along.
    pub fn copy(&self) -> Option<&Column<'a>> {
        self.columns.iter().find(|column| self.is_copy(column))
    }

    /// Returns true for the A/A copy of the baseline.
    pub fn is_copy(&self, column: &Column<'_>) -> bool {
        let baseline = self.baseline();
        column.place == baseline.place
            && column.variant.copy_of.as_ref() == Some(&baseline.variant.name)
    }

    /// Returns the variants without A/A copies, as the classic tables have them.
    pub fn originals(&self) -> impl Iterator<Item = &Column<'a>> {
        self.columns.iter().filter(|column| column.variant.copy_of.is_none())
    }

    /// Returns true where there are several numbers of tasks.
    pub fn has_tasks(&self) -> bool {
        self.rows.iter().any(|row| row.tasks != self.rows[0].tasks)
    }

    /// Returns the values of a metric, one per round.
    pub fn values(&self, column: &Column<'_>, row: Row<'_>, metric: &Metric) -> Figures {
        let Row { workload, tasks } = row;
        column.run.values(Cell { workload, tasks, variant: &column.variant.name }, metric)
    }

    /// Returns the values without gaps.
    pub fn samples(&self, column: &Column<'_>, row: Row<'_>, metric: &Metric) -> Vec<f64> {
        self.values(column, row, metric).into_iter().flatten().collect()
    }

    /// Returns the median of the samples.
    pub fn median(&self, column: &Column<'_>, row: Row<'_>, metric: &Metric) -> Option<f64> {
        statistics::median(&self.samples(column, row, metric))
    }

    /// Returns true where the rounds of a column are those of the baseline.
    pub fn is_paired(&self, column: &Column<'_>) -> bool {
        column.place == self.baseline().place
    }

    /// Returns the subjects of judgements with their names: every row, then the mean of the rows in
    /// which every column has samples.
    pub fn subjects(&self) -> Vec<(String, Vec<Row<'a>>)> {
        let row = |row: &Row<'a>| (row.label(self.has_tasks()), vec![*row]);
        let mut subjects: Vec<_> = self.rows.iter().map(row).collect();
        let has_all = |row: &&Row<'a>| {
            let samples = |column| self.samples(column, **row, self.metric);
            self.columns.iter().all(|column| !samples(column).is_empty())
        };
        let complete: Vec<Row<'a>> = self.rows.iter().filter(has_all).copied().collect();
        let name = match self.rows.len() - complete.len() {
            0 => mean_of(complete.len()),
            left_out => format!("{}, {left_out} left out", mean_of(complete.len())),
        };
        if self.rows.len() > 1 && !complete.is_empty() {
            subjects.push((name, complete));
        }
        subjects
    }

    /// Judges a variant by one row, or by the geometric mean of several.
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
                metric.zero().max(MARGIN * median.abs())
            }
            _ => MARGIN.ln_1p(),
        };
        let (direction, is_paired) = (metric.direction, self.is_paired(column));
        let rule = Rule { relation, direction, margin, is_paired };
        rule.judge(&variant, &baseline, copy.as_deref()).ok_or(Reason::NoFigure)
    }

    /// Returns true where a ratio says something: the baseline is well above zero, and every figure
    /// is positive.
    fn has_ratios(&self, column: &Column<'a>, row: Row<'a>, metric: &Metric) -> bool {
        let of = |column| self.samples(column, row, metric);
        let (variant, baseline) = (of(column), of(self.baseline()));
        statistics::median(&baseline).is_none_or(|median| median > metric.zero())
            && variant.iter().chain(&baseline).all(|value| *value > 0.0)
    }

    /// Returns the mean of the figures of cells in each round; of their logarithms where ratios are
    /// asked for. A round with a gap has none.
    pub(super) fn figures(
        &self,
        cells: &[(Row<'a>, &Column<'a>)],
        metric: &Metric,
        relation: Relation,
    ) -> Result<Figures, Reason> {
        let mut columns = Vec::with_capacity(cells.len());
        for &(row, column) in cells {
            let Row { workload, tasks } = row;
            let cell = Cell { workload, tasks, variant: &column.variant.name };
            let mut samples = column.run.samples_of(cell);
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

fn mean_of(rows: usize) -> String {
    format!("geometric mean of {rows}")
}

/// Lists oddities of the runs, alone and together.
fn oddities(runs: &[(&str, &Run)]) -> Vec<String> {
    let (first_place, first) = runs[0];
    let mut warnings: Vec<String> = Vec::new();
    for (place, run) in runs {
        warnings.extend(run.warnings.iter().cloned());
        warnings.extend(run.failures().into_iter().map(|it| format!("{place}: failed: {it}")));
        let others = run.meta.environment.differences(&first.meta.environment);
        if !others.is_empty() {
            let what = others.join("; ");
            warnings
                .push(format!("{place} was taken on another machine than {first_place}: {what}"));
        }
        let options = &run.meta.options;
        let differ =
            options.iter().filter(|(key, value)| first.meta.options.get(*key) != Some(value));
        for (key, value) in differ {
            let other = first.meta.options.get(key).map_or("nothing", String::as_str);
            warnings.push(format!("{place} has {key} = {value}, {first_place} {other}"));
        }
    }
    warnings
}

fn common_rows<'a>(runs: &[(&str, &'a Run)], warnings: &mut Vec<String>) -> Result<Vec<Row<'a>>> {
    let rows_of = |run: &'a Run| {
        let tasks = &run.meta.tasks;
        let rows = run.meta.workloads.iter().flat_map(move |workload| {
            tasks.iter().map(move |tasks| Row { workload: &workload.name, tasks: *tasks })
        });
        rows.collect::<Vec<Row<'a>>>()
    };
    let mut common = rows_of(runs[0].1);
    let mut left_out: Vec<Row<'a>> = Vec::new();
    for (_, run) in &runs[1..] {
        let rows = rows_of(run);
        left_out.extend(common.iter().filter(|row| !rows.contains(row)));
        left_out.extend(rows.iter().filter(|row| !common.contains(row)));
        common.retain(|row| rows.contains(row));
    }
    let names = |rows: &[Row<'_>]| {
        let names: Vec<String> = rows.iter().map(|row| row.label(true)).collect();
        names.join(", ")
    };
    if common.is_empty() {
        let list: Vec<String> = runs
            .iter()
            .map(|(place, run)| format!("{place} has {}", names(&rows_of(run))))
            .collect();
        bail!(Usage(format!("nothing in common: {}", list.join("; "))));
    }
    if !left_out.is_empty() {
        warnings.push(format!("left out, because not all have them: {}", names(&left_out)));
    }
    Ok(common)
}

fn columns<'a>(runs: &[(&str, &'a Run)], baseline: Option<&str>) -> Result<Vec<Column<'a>>> {
    let mut columns: Vec<Column<'a>> = Vec::new();
    for (place, &(_, run)) in runs.iter().enumerate() {
        let label = |variant: &Variant| variant.name.clone();
        let column = |variant| Column { run, place, variant, label: label(variant) };
        columns.extend(run.meta.variants.iter().map(column));
    }
    let names: Vec<&str> = columns.iter().map(|column| column.variant.name.as_str()).collect();
    let is_twice: Vec<bool> =
        names.iter().map(|name| names.iter().filter(|it| *it == name).count() > 1).collect();
    for (column, is_twice) in columns.iter_mut().zip(is_twice) {
        if is_twice {
            column.label = format!("{} ({})", column.variant.name, runs[column.place].0);
        }
    }
    let wanted = baseline.unwrap_or(&runs[0].1.meta.baseline);
    let position = columns
        .iter()
        .position(|column| column.label == wanted)
        .or_else(|| columns.iter().position(|column| column.variant.name == wanted));
    let Some(position) = position else {
        let labels: Vec<&str> = columns.iter().map(|column| column.label.as_str()).collect();
        return Err(nearest::unknown("variant --baseline", wanted, &labels));
    };
    let baseline = columns.remove(position);
    columns.insert(0, baseline);
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Direction;
    use crate::results::examples::{run, run_of};

    fn two() -> [(String, Run); 2] {
        let (ten, twenty) = ([Some(10.0); 8], [Some(20.0); 8]);
        [
            ("one".to_owned(), run("a", &[("a", &ten), ("a A/A", &ten), ("b", &twenty)])),
            ("two".to_owned(), run("c", &[("b", &twenty), ("c", &ten)])),
        ]
    }

    fn error(runs: &[(String, Run)], baseline: Option<&str>) -> String {
        Selection::new(runs, baseline).err().expect("nothing to compare").to_string()
    }

    #[test]
    fn variants_of_several_runs_stand_side_by_side() {
        let runs = two();
        let selection = Selection::new(&runs, None).unwrap();
        let labels: Vec<&str> = selection.columns.iter().map(|it| it.label.as_str()).collect();
        assert_eq!(labels, ["a", "a A/A", "b (one)", "b (two)", "c"]);
        let paired: Vec<bool> =
            selection.columns.iter().map(|it| selection.is_paired(it)).collect();
        assert_eq!(paired, [true, true, true, false, false]);
        let outcome = |index: usize| {
            let column = &selection.columns[index];
            selection.judge(column, &selection.rows, selection.metric).outcome
        };
        assert_eq!(
            (outcome(2), outcome(3), outcome(4)),
            (Outcome::Worse, Outcome::Worse, Outcome::Same)
        );
        assert_eq!(selection.warnings(), [] as [&str; 0]);
    }

    #[test]
    fn the_baseline_can_be_chosen_from_any_run() {
        let runs = two();
        let first =
            |baseline| Selection::new(&runs, Some(baseline)).unwrap().baseline().label.clone();
        assert_eq!(first("c"), "c");
        assert_eq!(first("b (two)"), "b (two)");
        assert_eq!(first("b"), "b (one)");
        assert!(error(&runs, Some("d")).starts_with("no variant --baseline d; "));
    }

    #[test]
    fn runs_with_nothing_in_common_are_refused() {
        let mut runs = two();
        runs[1].1.meta.workloads[0].name = "x".to_owned();
        assert_eq!(error(&runs, None), "nothing in common: one has w-1; two has x-1");
        runs[1].1.meta.experiment = "other".to_owned();
        let expected = "nothing in common: one is a run of test, two one of other";
        assert_eq!(error(&runs, None), expected);
        let mut runs = two();
        runs[1].1.meta.metrics[0].unit = "s".to_owned();
        assert!(error(&runs, None).starts_with("nothing in common: one and two measured"));
    }

    #[test]
    fn other_machines_options_and_rows_are_told() {
        let mut runs = two();
        runs[1].1.meta.environment.kernel = "9.9".to_owned();
        runs[1].1.meta.options.insert("millis".to_owned(), "8".to_owned());
        runs[1].1.meta.tasks = vec![1, 2];
        let selection = Selection::new(&runs, None).unwrap();
        assert_eq!(selection.rows, [Row { workload: "w", tasks: 1 }]);
        let [machine, options, rows] = selection.warnings() else {
            panic!("{:?}", selection.warnings())
        };
        assert!(machine.starts_with("two was taken on another machine than one: kernel 9.9"));
        assert_eq!(options, "two has millis = 8, one nothing");
        assert_eq!(rows, "left out, because not all have them: w-2");
    }

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

    /// The judgement on a variant in a metric that is near zero up to 10 ms.
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
