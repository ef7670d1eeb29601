//! Tables with a column for each variant: medians, and judgements relative to the baseline.

use crate::judge::{Column, Row, Selection};
use crate::results::{Metric, Run};
use crate::table::{Table, counted, figure_or};

/// Workloads with a common mean.
pub struct Group {
    /// Name of the group, for the row of its mean.
    pub name: String,
    /// Names of its workloads.
    pub workloads: Vec<String>,
}

/// A run with its workloads in groups.
pub struct Matrix<'a> {
    selection: Selection<'a>,
    groups: Vec<Group>,
}

impl<'a> Matrix<'a> {
    /// Lays out the workloads of `run` that are in one of `groups`.
    pub fn new(run: &'a Run, groups: Vec<Group>) -> Self {
        Self { selection: Selection::of(run), groups }
    }

    /// Returns true if there are no groups.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns medians of the primary metric, then ratios to the baseline.
    pub fn tables(&self) -> String {
        let metric = self.selection.metric;
        format!(
            "Medians:\n\n{}\n\n{} in relation to {} (above 1: more), paired within blocks:\n\n{}",
            self.medians(metric),
            metric.name,
            self.selection.baseline().label,
            self.ratios(metric)
        )
    }

    /// Returns the median of every workload on every variant.
    pub fn medians(&self, metric: &Metric) -> String {
        let run = self.selection.baseline().run;
        let variants = run.meta.variants.iter();
        let columns: Vec<&Column<'_>> =
            variants.filter_map(|variant| self.selection.column(&variant.name)).collect();
        let head = std::iter::once(metric.unit.clone());
        let head = head.chain(columns.iter().map(|column| column.label.clone()));
        let row = |row: Row<'a>| {
            let median = |column: &&Column<'_>| self.selection.median(column, row, metric);
            let medians = columns.iter().map(|column| figure_or(median(column), "failed"));
            std::iter::once(self.label(row)).chain(medians).collect::<Vec<String>>()
        };
        let rows = self.groups.iter().flat_map(|it| self.rows(it)).map(row);
        Table::of(head, rows).text()
    }

    /// Returns every other variant relative to the baseline, with intervals. An asterisk marks a
    /// variant that differs. A group of several rows ends with their geometric mean.
    pub fn ratios(&self, metric: &Metric) -> String {
        // The A/A copy comes first: it shows the noise of the other ratios.
        let (copies, others): (Vec<_>, Vec<_>) =
            self.selection.columns[1..].iter().partition(|column| self.selection.is_copy(column));
        let columns: Vec<&Column<'a>> = copies.into_iter().chain(others).collect();
        let head = format!("{} / {}", metric.name, self.selection.baseline().label);
        let head = std::iter::once(head).chain(columns.iter().map(|column| column.label.clone()));
        let mut rows = Vec::new();
        for group in &self.groups {
            let members = self.rows(group);
            let row = |name: String, members: &[Row<'a>]| {
                let cells = columns.iter().map(|column| self.ratio(column, members, metric));
                std::iter::once(name).chain(cells).collect::<Vec<String>>()
            };
            rows.extend(members.iter().map(|member| row(self.label(*member), &[*member])));
            if members.len() > 1 {
                rows.push(row(format!("{} (mean)", group.name), &members));
            }
        }
        Table::of(head, rows).text()
    }

    fn ratio(&self, column: &Column<'a>, rows: &[Row<'a>], metric: &Metric) -> String {
        let judgement = self.selection.judge(column, rows, metric);
        match (judgement.interval(), judgement.outcome.is_difference()) {
            _ if judgement.estimate.is_none() => judgement.outcome.word().to_owned(),
            (None, _) => judgement.text(),
            (Some(_), true) if !judgement.is_copy => judgement.text() + " *",
            (Some(_), _) => judgement.text() + "  ",
        }
    }

    fn rows(&self, group: &Group) -> Vec<Row<'a>> {
        let of = |name: &String| {
            let is_it = move |row: &&Row<'a>| row.workload == name;
            self.selection.rows.iter().filter(is_it).copied().collect::<Vec<_>>()
        };
        group.workloads.iter().flat_map(of).collect()
    }

    fn label(&self, row: Row<'_>) -> String {
        match self.selection.has_tasks() {
            false => row.workload.to_owned(),
            true => format!("{}, {}", row.workload, counted(row.tasks, "task")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Direction;
    use crate::results::examples::{Cells, run, run_of};

    fn matrix(run: &Run) -> Matrix<'_> {
        Matrix::new(run, vec![Group { name: "g".to_owned(), workloads: vec!["w".to_owned()] }])
    }

    #[test]
    fn a_steady_factor_of_two_is_found_through_noise_that_hits_both() {
        // The machine slows down fourfold between rounds, never within one.
        let base: Vec<Option<f64>> =
            [10.0, 10.0, 40.0, 40.0, 40.0, 40.0, 10.0, 10.0].map(Some).to_vec();
        let twice: Vec<Option<f64>> = base.iter().map(|v| v.map(|v| v * 2.0)).collect();
        let run = run("base", &[("base", &base), ("base A/A", &base), ("twice", &twice)]);
        let text = matrix(&run).ratios(run.meta.primary());
        assert!(text.contains("time / base | "), "{text}");
        assert!(text.contains("| 2.000 [2.000, 2.000] * |"), "{text}");
        assert!(text.contains("| 1.000 [1.000, 1.000]   |"), "{text}");
        assert!(matrix(&run).medians(run.meta.primary()).contains("| 25.0 |"));
    }

    #[test]
    fn a_row_without_an_estimate_says_why() {
        let time = || Metric::new("time", "ns", Direction::Lower, "value").primary();
        let cell =
            |work: &str, name: &str, ns: f64| (work.to_owned(), 1, name.to_owned(), vec![ns; 6]);
        let cells: Cells = vec![
            cell("w", "base", 4.0),
            cell("w", "other", 8.0),
            cell("v", "base", 4.0),
            cell("v", "other", 0.0),
        ];
        let both = |run: &Run| {
            let workloads = vec!["w".to_owned(), "v".to_owned()];
            let matrix = Matrix::new(run, vec![Group { name: "g".to_owned(), workloads }]);
            matrix.ratios(run.meta.primary())
        };
        // A geometric mean with a factor of 0 has no ratio; the row by itself is a difference.
        let mut run = run_of("test", time(), &cells);
        let text = both(&run);
        assert!(text.contains("| g (mean)") && text.contains(" no ratio |"), "{text}");
        run.meta.strict = true;
        run.samples[0].failure = Some("signal 9".to_owned());
        let text = both(&run);
        assert!(text.contains(" the baseline failed |"), "{text}");
    }

    #[test]
    fn one_task_is_no_plural() {
        let time = Metric::new("time", "ns", Direction::Lower, "value").primary();
        let cell = |tasks| ("w".to_owned(), tasks, "base".to_owned(), vec![4.0]);
        let run = run_of("test", time, &[1, 2].map(cell).into());
        let text = matrix(&run).medians(run.meta.primary());
        assert!(text.contains("| w, 1 task ") && text.contains("| w, 2 tasks "), "{text}");
    }
}
