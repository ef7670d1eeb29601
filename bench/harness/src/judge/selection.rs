//! Variants of one or several runs side by side, over the rows that the runs share.

use super::decision::Figures;
use crate::nearest;
use crate::results::{Cell, Metric, Run, Variant};
use crate::usage::Usage;
use anyhow::{Result, bail};

/// A variant of a run, as a column of tables.
#[derive(Clone, Debug)]
pub struct Column<'a> {
    /// The variant's run.
    pub run: &'a Run,
    /// Index of the run.
    pub place: usize,
    /// The variant.
    pub variant: &'a Variant,
    /// The name in tables, with the directory if two variants have the same name.
    pub label: String,
}

impl<'a> Column<'a> {
    /// Returns the samples of the variant in a row, as the run names them.
    pub fn cell(&self, Row { workload, tasks }: Row<'a>) -> Cell<'a> {
        Cell { workload, tasks, variant: &self.variant.name }
    }
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
    /// Returns the name in tables, with the number of tasks if `with_tasks`.
    pub fn label(&self, with_tasks: bool) -> String {
        match with_tasks {
            true => format!("{}-{}", self.workload, self.tasks),
            false => self.workload.to_owned(),
        }
    }
}

/// The variants and rows that are compared.
pub struct Selection<'a> {
    /// The runs with their directories.
    pub runs: Vec<(&'a str, &'a Run)>,
    /// The variants; the baseline is the first.
    pub columns: Vec<Column<'a>>,
    /// The rows that all runs have.
    pub rows: Vec<Row<'a>>,
    /// The metric that verdicts are about.
    pub metric: &'a Metric,
    /// Warnings for the reader of a table.
    pub warnings: Vec<String>,
    /// An answer that replaces the headline, if these runs alone do not decide the answer.
    pub answer: Option<&'a str>,
}

impl<'a> Selection<'a> {
    /// Selects all variants and rows of one run.
    ///
    /// # Panics
    /// If the run is invalid: its baseline must be one of its variants.
    pub fn of(run: &'a Run) -> Self {
        Self::beside(vec![("", run)], None).expect("a run has something in common with itself")
    }

    /// Puts the variants of all runs side by side.
    ///
    /// # Errors
    /// If the runs differ in experiment or primary metric, share no row, or lack the baseline.
    pub fn new(runs: &'a [(String, Run)], baseline: Option<&str>) -> Result<Self> {
        Self::beside(runs.iter().map(|(place, run)| (place.as_str(), run)).collect(), baseline)
    }

    pub(crate) fn beside(runs: Vec<(&'a str, &'a Run)>, baseline: Option<&str>) -> Result<Self> {
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
        Ok(Self { runs, columns, rows, metric, warnings, answer: None })
    }

    /// Returns the baseline.
    pub fn baseline(&self) -> &Column<'a> {
        &self.columns[0]
    }

    /// Returns the column with this label.
    pub fn column(&self, label: &str) -> Option<&Column<'a>> {
        self.columns.iter().find(|column| column.label == label)
    }

    /// Returns the A/A copy of the baseline, if it ran along.
    pub fn copy(&self) -> Option<&Column<'a>> {
        self.columns.iter().find(|column| self.is_copy(column))
    }

    /// Returns true for the A/A copy of the baseline.
    pub fn is_copy(&self, column: &Column<'_>) -> bool {
        let baseline = self.baseline();
        column.place == baseline.place
            && column.variant.copy_of.as_ref() == Some(&baseline.variant.name)
    }

    /// Returns the variants without A/A copies.
    pub fn originals(&self) -> impl Iterator<Item = &Column<'a>> {
        self.columns.iter().filter(|column| column.variant.copy_of.is_none())
    }

    /// Returns true if the rows have several numbers of tasks.
    pub fn has_tasks(&self) -> bool {
        self.rows.iter().any(|row| row.tasks != self.rows[0].tasks)
    }

    /// Returns the values of a metric, one per round.
    pub fn values(&self, column: &Column<'_>, row: Row<'_>, metric: &Metric) -> Figures {
        column.run.values(column.cell(row), metric)
    }

    /// Returns [`values`](Self::values) without the rounds that have none.
    pub fn samples(&self, column: &Column<'_>, row: Row<'_>, metric: &Metric) -> Vec<f64> {
        self.values(column, row, metric).into_iter().flatten().collect()
    }

    /// Returns the single values of the samples of all rounds.
    pub fn single_values(&self, column: &Column<'_>, row: Row<'_>, metric: &Metric) -> Vec<f64> {
        column.run.single_values(column.cell(row), metric)
    }

    /// Returns the median of the samples.
    pub fn median(&self, column: &Column<'_>, row: Row<'_>, metric: &Metric) -> Option<f64> {
        column.run.median(column.cell(row), metric)
    }

    /// Returns true if the column is of the same run, and so of the same rounds, as the baseline.
    pub fn is_paired(&self, column: &Column<'_>) -> bool {
        column.place == self.baseline().place
    }

    /// Returns the named subjects of judgements on a metric: every row in which a column has
    /// samples of it, then the mean of the rows in which every column has samples.
    pub fn subjects_of(&self, metric: &Metric) -> Vec<(String, Vec<Row<'a>>)> {
        let is_subject = |row: &&Row<'a>| metric.primary || self.is_measured(**row, metric);
        let rows: Vec<Row<'a>> = self.rows.iter().filter(is_subject).copied().collect();
        let row = |row: &Row<'a>| (row.label(self.has_tasks()), vec![*row]);
        let mut subjects: Vec<_> = rows.iter().map(row).collect();
        let complete = self.complete_rows(metric);
        let name = match rows.len() - complete.len() {
            0 => mean_of(complete.len()),
            left_out => format!("{}, {left_out} left out", mean_of(complete.len())),
        };
        if rows.len() > 1 && !complete.is_empty() {
            subjects.push((name, complete));
        }
        subjects
    }

    /// Returns whether a column has samples of a metric in a row.
    pub fn is_measured(&self, row: Row<'_>, metric: &Metric) -> bool {
        self.columns.iter().any(|it| !self.samples(it, row, metric).is_empty())
    }

    /// Returns the rows in which every column has samples of a metric.
    pub fn complete_rows(&self, metric: &Metric) -> Vec<Row<'a>> {
        let has_all = |row: &&Row<'a>| {
            self.columns.iter().all(|it| !self.samples(it, **row, metric).is_empty())
        };
        self.rows.iter().filter(has_all).copied().collect()
    }
}

pub(super) fn mean_of(rows: usize) -> String {
    format!("geometric mean of {rows}")
}

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
        for (key, value) in &run.meta.options {
            let other = first.meta.options.get(key);
            if other != Some(value) {
                let other = other.map_or("nothing", String::as_str);
                warnings.push(format!("{place} has {key} = {value}, {first_place} {other}"));
            }
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
    let all = || runs.iter().flat_map(|(_, run)| &run.meta.variants);
    let mut columns: Vec<Column<'a>> = Vec::new();
    for (place, &(directory, run)) in runs.iter().enumerate() {
        columns.extend(run.meta.variants.iter().map(|variant| {
            let name = &variant.name;
            let label = match all().filter(|it| it.name == *name).count() {
                1 => name.clone(),
                _ => format!("{name} ({directory})"),
            };
            Column { run, place, variant, label }
        }));
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
    use crate::judge::Outcome;
    use crate::results::examples::run;

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
        assert_eq!(selection.warnings, [] as [&str; 0]);
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
        let [machine, options, rows] = &selection.warnings[..] else {
            panic!("{:?}", selection.warnings)
        };
        assert!(machine.starts_with("two was taken on another machine than one: kernel 9.9"));
        assert_eq!(options, "two has millis = 8, one nothing");
        assert_eq!(rows, "left out, because not all have them: w-2");
    }
}
