//! A run in memory: its meta data and its samples.

use super::{Meta, Metric, Sample};
use crate::statistics;
use crate::table::counted;

/// The samples that differ only in their round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// The workload.
    pub workload: &'a str,
    /// Number of tasks.
    pub tasks: u32,
    /// The variant.
    pub variant: &'a str,
}

/// A run, just taken or read from a directory.
#[derive(Clone, Debug)]
pub struct Run {
    /// Variants, workloads and machine.
    pub meta: Meta,
    /// The samples, in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// Oddities of its directory.
    pub warnings: Vec<String>,
}

impl Run {
    /// Counted rounds with a sample: fewer than requested if the run was cut short.
    pub fn rounds(&self) -> usize {
        self.samples.iter().map(|sample| sample.round).max().unwrap_or(0) as usize
    }

    /// Counted samples of a cell in the order taken, with the failed ones.
    pub fn samples_of<'a>(&'a self, cell: Cell<'a>) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| {
            sample.round > 0
                && sample.workload == cell.workload
                && sample.tasks == cell.tasks
                && sample.variant == cell.variant
        })
    }

    /// One value per counted round of a cell; `None` if the sample failed or lacks the figure.
    /// Equal indices in the values of two variants are one round: a pair.
    pub fn values(&self, cell: Cell<'_>, metric: &Metric) -> Vec<Option<f64>> {
        let mut values = vec![None; self.rounds()];
        for sample in self.samples_of(cell) {
            let value = sample.measurement.as_ref().and_then(|it| metric.value(it));
            values[sample.round as usize - 1] = value;
        }
        values
    }

    /// The median of [`values`](Self::values); `None` without any.
    pub fn median(&self, cell: Cell<'_>, metric: &Metric) -> Option<f64> {
        let values: Vec<f64> = self.values(cell, metric).into_iter().flatten().collect();
        statistics::median(&values)
    }

    /// All single values of a cell: of each sample its series, or its value if it has none.
    pub fn single_values(&self, cell: Cell<'_>, metric: &Metric) -> Vec<f64> {
        let of = |sample: &Sample| sample.measurement.as_ref().map(|it| metric.values(it));
        self.samples_of(cell).filter_map(of).flatten().collect()
    }

    /// Returns the text above tables: machine, variants, sampling; `what` describes a sample.
    pub fn head(&self, what: &str) -> String {
        let mut text = self.meta.environment.summary() + "\n";
        for variant in &self.meta.variants {
            text.push_str(&format!("* {}: {}\n", variant.name, variant.description));
        }
        let (samples, seed) = (counted(self.meta.rounds, "sample"), self.meta.seed);
        text + &format!("{samples} of each, in random order (seed {seed}). A sample: {what}\n")
    }

    /// One line per distinct failure, with its count and place.
    pub fn failures(&self) -> Vec<String> {
        let mut distinct: Vec<(String, usize)> = Vec::new();
        for sample in &self.samples {
            let Some(failure) = &sample.failure else { continue };
            let text = format!("{} on {}: {failure}", sample.workload, sample.variant);
            match distinct.iter_mut().find(|(present, _)| *present == text) {
                Some((_, count)) => *count += 1,
                None => distinct.push((text, 1)),
            }
        }
        distinct.into_iter().map(|(text, n)| format!("{text} ({})", counted(n, "time"))).collect()
    }

    /// Fails if samples failed. Callers print tables first, so that the failure is not overlooked.
    ///
    /// # Errors
    /// The failures, one per line.
    pub fn expect_no_failures(&self) -> anyhow::Result<()> {
        let failures = self.failures();
        if !failures.is_empty() {
            anyhow::bail!("samples failed:\n{}", failures.join("\n"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Direction;
    use super::super::examples::{cell, run};
    use super::*;

    #[test]
    fn values_leave_out_the_warm_up_and_keep_gaps() {
        let mut run = run("a", &[("a", &[Some(2.0), None, Some(3.0)])]);
        let mut warm_up = run.samples[0].clone();
        warm_up.round = 0;
        run.samples.insert(0, warm_up);
        let time = run.meta.primary().clone();
        assert_eq!(run.values(cell("a"), &time), [Some(2.0), None, Some(3.0)]);
        assert_eq!(run.values(cell("b"), &time), [None; 3]);
        assert_eq!(run.values(Cell { tasks: 2, ..cell("a") }, &time), [None; 3]);
    }

    #[test]
    fn series_of_all_rounds_are_one_sample() {
        let mut run = run("a", &[("a", &[Some(2.0), None, Some(3.0)])]);
        let time = Metric::new("each", "us", Direction::Lower, "each");
        for sample in &mut run.samples {
            if let Some(measurement) = &mut sample.measurement {
                measurement.series.insert("each".to_owned(), vec![sample.round.into(), 7]);
            }
        }
        assert_eq!(run.single_values(cell("a"), &time), [1.0, 7.0, 3.0, 7.0]);
        let ordinary = run.meta.primary().clone();
        assert_eq!(run.single_values(cell("a"), &ordinary), [2.0, 3.0]);
    }

    #[test]
    fn failures_are_counted() {
        let mut run = run("a", &[("a", &[None, None])]);
        assert!(run.expect_no_failures().is_ok());
        for sample in &mut run.samples {
            sample.failure = Some("signal 11".to_owned());
        }
        assert_eq!(run.failures(), ["w on a: signal 11 (2 times)"]);
        run.samples.truncate(1);
        assert_eq!(run.failures(), ["w on a: signal 11 (1 time)"]);
        assert!(run.expect_no_failures().is_err());
    }
}
