//! From raw samples to the two tables of a comparison: medians, and paired ratios to the baseline.

use crate::results::{Cell, Metric, Run};
use crate::statistics::{self, Estimate};
use crate::table;

/// Workloads that are summed up in a row of their own.
pub struct Group {
    /// What the summary row is called.
    pub name: String,
    /// Its workloads.
    pub workloads: Vec<String>,
}

/// A run with its workloads in groups, judged by its primary metric.
pub struct Comparison<'a> {
    /// The samples.
    pub run: &'a Run,
    /// The workloads.
    pub groups: Vec<Group>,
}

impl Comparison<'_> {
    /// Medians, then ratios to the baseline.
    pub fn tables(&self) -> String {
        format!(
            "Medians:\n\n{}\n\n{} in relation to {} (above 1: more), paired within blocks:\n\n{}",
            self.medians(),
            self.run.meta.primary().name,
            self.run.meta.baseline,
            self.ratios()
        )
    }

    /// Median of every workload on every variant.
    pub fn medians(&self) -> String {
        self.medians_of(self.run.meta.primary())
    }

    /// Median of another metric.
    pub fn medians_of(&self, metric: &Metric) -> String {
        let variants = self.run.meta.variants.iter().map(|variant| variant.name.clone());
        let header = std::iter::once(metric.unit.clone()).chain(variants).collect();
        let mut rows = Vec::new();
        for (workload, tasks) in self.groups.iter().flat_map(|group| self.rows(group)) {
            let mut row = vec![self.label(workload, tasks)];
            for variant in &self.run.meta.variants {
                let cell = Cell { workload, tasks, variant: &variant.name };
                let rounds: Vec<f64> =
                    self.run.values(cell, metric).into_iter().flatten().collect();
                let median = statistics::median(&rounds);
                row.push(median.map_or("failed".to_owned(), table::figure));
            }
            rows.push(row);
        }
        table::render(header, rows)
    }

    /// Every other variant in relation to the baseline, with intervals; the last row of each group
    /// is the geometric mean over its workloads.
    pub fn ratios(&self) -> String {
        self.ratios_of(self.run.meta.primary())
    }

    /// [`ratios`](Self::ratios) of another metric.
    pub fn ratios_of(&self, metric: &Metric) -> String {
        let meta = &self.run.meta;
        let baseline = &meta.baseline;
        // The copy comes first: it says how the others are to be read.
        let copy = meta.copy().map(|variant| variant.name.as_str());
        let names = meta.variants.iter().map(|variant| variant.name.as_str());
        let others: Vec<&str> = copy
            .into_iter()
            .chain(names.filter(|name| name != baseline && Some(*name) != copy))
            .collect();
        let mut header = vec![format!("{} / {baseline}", metric.name)];
        header.extend(others.iter().map(|name| (*name).to_owned()));
        let mut rows = Vec::new();
        for group in &self.groups {
            let members: Vec<(&str, u32)> = self.rows(group).collect();
            for &(workload, tasks) in &members {
                let ratio = |variant: &str| self.ratio(Cell { workload, tasks, variant }, metric);
                rows.push(ratio_row(&self.label(workload, tasks), &others, copy, ratio));
            }
            if members.len() > 1 {
                let name = format!("{} (mean)", group.name);
                let ratio = |variant: &str| self.group_ratio(group, variant, metric);
                rows.push(ratio_row(&name, &others, copy, ratio));
            }
        }
        table::render(header, rows)
    }

    /// A row for each workload and number of tasks.
    fn rows<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = (&'a str, u32)> {
        let tasks = &self.run.meta.tasks;
        group.workloads.iter().flat_map(|name| tasks.iter().map(|tasks| (name.as_str(), *tasks)))
    }

    fn label(&self, workload: &str, tasks: u32) -> String {
        match self.run.meta.tasks.len() {
            1 => workload.to_owned(),
            _ => format!("{workload}, {tasks} tasks"),
        }
    }

    fn ratios_by_round(&self, cell: Cell<'_>, metric: &Metric) -> Vec<Option<f64>> {
        let baseline = Cell { variant: &self.run.meta.baseline, ..cell };
        statistics::paired_ratios(
            &self.run.values(cell, metric),
            &self.run.values(baseline, metric),
        )
    }

    fn ratio(&self, cell: Cell<'_>, metric: &Metric) -> Option<Estimate> {
        let ratios: Vec<f64> = self.ratios_by_round(cell, metric).into_iter().flatten().collect();
        statistics::estimate(&ratios)
    }

    /// Per round the geometric mean of the ratios of all workloads; rounds with a gap are left out.
    fn group_ratio(&self, group: &Group, variant: &str, metric: &Metric) -> Option<Estimate> {
        let column =
            |(workload, tasks)| self.ratios_by_round(Cell { workload, tasks, variant }, metric);
        let columns: Vec<Vec<Option<f64>>> = self.rows(group).map(column).collect();
        let mean = |round: usize| {
            let ratios: Option<Vec<f64>> = columns.iter().map(|column| column[round]).collect();
            statistics::geometric_mean(&ratios?)
        };
        let means: Vec<f64> = (0..self.run.rounds()).filter_map(mean).collect();
        statistics::estimate(&means)
    }
}

/// Others are marked where they differ from the copy of the baseline.
fn ratio_row(
    name: &str,
    variants: &[&str],
    copy: Option<&str>,
    ratio: impl Fn(&str) -> Option<Estimate>,
) -> Vec<String> {
    let noise = copy.and_then(&ratio).and_then(|estimate| estimate.interval);
    let cells = variants.iter().map(|variant| table::ratio(ratio(variant), noise));
    std::iter::once(name.to_owned()).chain(cells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples::run;

    fn comparison(run: &Run) -> Comparison<'_> {
        let group = |name: &str, workloads: &[&str]| Group {
            name: name.to_owned(),
            workloads: workloads.iter().map(|w| (*w).to_owned()).collect(),
        };
        Comparison { run, groups: vec![group("g", &["w"])] }
    }

    #[test]
    fn a_steady_factor_of_two_is_found_through_noise_that_hits_both() {
        // The machine slows down fourfold in the middle; within rounds nothing changes.
        let base: Vec<Option<f64>> =
            [10.0, 10.0, 40.0, 40.0, 40.0, 40.0, 10.0, 10.0].map(Some).to_vec();
        let twice: Vec<Option<f64>> = base.iter().map(|v| v.map(|v| v * 2.0)).collect();
        let run = run("base", &[("base", &base), ("base A/A", &base), ("twice", &twice)]);
        let text = comparison(&run).ratios();
        assert!(text.contains("time / base | "), "{text}");
        assert!(text.contains("| 2.00 [2.00, 2.00] * |"), "{text}");
        assert!(text.contains("| 1.00 [1.00, 1.00]   |"), "{text}");
        assert!(comparison(&run).medians().contains("| 25.0 |"));
    }

    #[test]
    fn group_means_leave_out_rounds_with_gaps() {
        let base = [Some(10.0), Some(10.0)];
        let run =
            run("base", &[("base", &base), ("base A/A", &base), ("other", &[Some(30.0), None])]);
        let comparison = comparison(&run);
        let time = run.meta.primary();
        let estimate = comparison.group_ratio(&comparison.groups[0], "other", time).unwrap();
        assert!((estimate.median - 3.0).abs() < 1e-9);
        assert_eq!(comparison.group_ratio(&comparison.groups[0], "nobody", time), None);
    }
}
