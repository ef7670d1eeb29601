//! Which variants of one or several runs stand side by side, and over which rows.

use crate::nearest;
use crate::results::{Cell, Metric, Run, Variant};
use crate::statistics::verdict::{self, Verdict};
use crate::usage::Usage;
use anyhow::{Result, bail};

/// A variant of one of the runs.
#[derive(Clone, Debug)]
pub struct Column<'a> {
    /// Its run.
    pub run: &'a Run,
    /// Which of the runs that is.
    pub place: usize,
    /// The variant.
    pub variant: &'a Variant,
    /// Its name, with that of the directory where two have the same.
    pub label: String,
}

/// What is measured beside each other: a workload with a number of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The workload.
    pub workload: &'a str,
    /// How many tasks.
    pub tasks: u32,
}

impl Row<'_> {
    /// Its name where there are several numbers of tasks, if `with_tasks`.
    pub fn label(&self, with_tasks: bool) -> String {
        match with_tasks {
            true => format!("{}-{}", self.workload, self.tasks),
            false => self.workload.to_owned(),
        }
    }
}

/// What is compared.
pub struct Selection<'a> {
    runs: &'a [(String, Run)],
    /// The baseline first.
    pub columns: Vec<Column<'a>>,
    /// What all runs have.
    pub rows: Vec<Row<'a>>,
    /// What is compared.
    pub metric: &'a Metric,
    warnings: Vec<String>,
}

impl<'a> Selection<'a> {
    /// Puts the variants of all runs side by side.
    ///
    /// # Errors
    /// Where the runs have nothing in common, or no variant has the name of the baseline.
    pub fn new(runs: &'a [(String, Run)], baseline: Option<&str>) -> Result<Self> {
        let (first_place, first) = &runs[0];
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
        let mut warnings = oddities(runs);
        let rows = common_rows(runs, &mut warnings)?;
        let columns = columns(runs, baseline)?;
        Ok(Self { runs, columns, rows, metric, warnings })
    }

    /// What a reader should know before the table.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The runs with their directories.
    pub fn runs(&self) -> &'a [(String, Run)] {
        self.runs
    }

    /// The variant that the others are compared with.
    pub fn baseline(&self) -> &Column<'a> {
        &self.columns[0]
    }

    /// The A/A copy of the baseline, if one ran along.
    pub fn copy(&self) -> Option<&Column<'a>> {
        self.columns.iter().find(|column| self.is_copy(column))
    }

    /// Whether it is the A/A copy of the baseline.
    pub fn is_copy(&self, column: &Column<'_>) -> bool {
        let baseline = self.baseline();
        column.place == baseline.place
            && column.variant.copy_of.as_ref() == Some(&baseline.variant.name)
    }

    /// The variants without A/A copies, as the classic tables have them.
    pub fn originals(&self) -> impl Iterator<Item = &Column<'a>> {
        self.columns.iter().filter(|column| column.variant.copy_of.is_none())
    }

    /// Whether some rows differ only by the number of tasks.
    pub fn has_tasks(&self) -> bool {
        self.rows.iter().any(|row| row.tasks != self.rows[0].tasks)
    }

    /// Values of a metric, one per round.
    pub fn values_of(
        &self,
        column: &Column<'_>,
        row: Row<'_>,
        metric: &Metric,
    ) -> Vec<Option<f64>> {
        let Row { workload, tasks } = row;
        column.run.values(Cell { workload, tasks, variant: &column.variant.name }, metric)
    }

    /// Values of the metric that is compared, one per round.
    pub fn values(&self, column: &Column<'_>, row: Row<'_>) -> Vec<Option<f64>> {
        self.values_of(column, row, self.metric)
    }

    /// The same without gaps.
    pub fn samples(&self, column: &Column<'_>, row: Row<'_>) -> Vec<f64> {
        self.values(column, row).into_iter().flatten().collect()
    }

    /// Whether its rounds are those of the baseline.
    pub fn is_paired(&self, column: &Column<'_>) -> bool {
        column.place == self.baseline().place
    }

    /// Judges a column by values that `of` gives for columns, one per round.
    pub fn judge(
        &self,
        column: &Column<'_>,
        of: impl Fn(&Column<'_>) -> Vec<Option<f64>>,
    ) -> Option<Verdict> {
        let direction = self.metric.direction;
        let (values, baseline) = (of(column), of(self.baseline()));
        let copy = self.copy().filter(|_| !self.is_copy(column)).map(&of);
        if self.is_paired(column) {
            return verdict::paired(&values, &baseline, copy.as_deref(), direction);
        }
        let present = |values: Vec<Option<f64>>| values.into_iter().flatten().collect::<Vec<f64>>();
        let copy = copy.map(present);
        verdict::unpaired(&present(values), &present(baseline), copy.as_deref(), direction)
    }
}

/// What is odd about the runs, alone and together.
fn oddities(runs: &[(String, Run)]) -> Vec<String> {
    let (first_place, first) = &runs[0];
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

fn common_rows<'a>(runs: &'a [(String, Run)], warnings: &mut Vec<String>) -> Result<Vec<Row<'a>>> {
    let rows_of = |run: &'a Run| {
        let tasks = &run.meta.tasks;
        let rows = run.meta.workloads.iter().flat_map(move |workload| {
            tasks.iter().map(move |tasks| Row { workload: &workload.name, tasks: *tasks })
        });
        rows.collect::<Vec<Row<'a>>>()
    };
    let mut common = rows_of(&runs[0].1);
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

fn columns<'a>(runs: &'a [(String, Run)], baseline: Option<&str>) -> Result<Vec<Column<'a>>> {
    let mut columns: Vec<Column<'a>> = Vec::new();
    for (place, (_, run)) in runs.iter().enumerate() {
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
    use crate::results::examples::run;
    use crate::statistics::verdict::Outcome;

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
        let of = |column: &Column<'_>| selection.values(column, selection.rows[0]);
        let outcome =
            |index: usize| selection.judge(&selection.columns[index], of).unwrap().outcome;
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
}
