//! A run in memory: its meta data and its samples.

use super::{Meta, Metric, Sample};

/// Where samples stand side by side: what differs between them is the round alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    /// What ran.
    pub(crate) workload: &'a str,
    /// How many at once.
    pub(crate) tasks: u32,
    /// On what.
    pub(crate) variant: &'a str,
}

/// A whole run, just taken or read back.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// What was compared, and where.
    pub(crate) meta: Meta,
    /// In the order in which they were taken.
    pub(crate) samples: Vec<Sample>,
    /// What was odd about the directory that it was read from.
    pub(crate) warnings: Vec<String>,
}

impl Run {
    /// Counted rounds that have a sample: fewer than asked for where the run was cut short.
    pub(crate) fn rounds(&self) -> usize {
        self.samples.iter().map(|sample| sample.round).max().unwrap_or(0) as usize
    }

    /// Counted samples of a cell in the order taken; failed ones are among them.
    pub(crate) fn samples_of<'a>(&'a self, cell: Cell<'a>) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| {
            sample.round > 0
                && sample.workload == cell.workload
                && sample.tasks == cell.tasks
                && sample.variant == cell.variant
        })
    }

    /// One value per counted round of a cell, `None` where the sample failed or has no such figure.
    /// Equal indices of two columns are the same round: a pair.
    pub(crate) fn values(&self, cell: Cell<'_>, metric: &Metric) -> Vec<Option<f64>> {
        let mut values = vec![None; self.rounds()];
        for sample in self.samples_of(cell) {
            let value = sample.measurement.as_ref().and_then(|it| metric.value(it));
            values[sample.round as usize - 1] = value;
        }
        values
    }

    /// What stands above the tables: the machine, the variants, and how samples were taken; `what`
    /// says what a sample was.
    pub(crate) fn head(&self, what: &str) -> String {
        let mut text = self.meta.environment.summary() + "\n";
        for variant in &self.meta.variants {
            text.push_str(&format!("* {}: {}\n", variant.name, variant.description));
        }
        let Meta { rounds, seed, .. } = self.meta;
        text + &format!("{rounds} samples of each, seed {seed}, order randomised: {what}\n")
    }

    /// One line per distinct failure, with how often it happened and where.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut distinct: Vec<(String, usize)> = Vec::new();
        for sample in &self.samples {
            let Some(failure) = &sample.failure else { continue };
            let text = format!("{} on {}: {failure}", sample.workload, sample.variant);
            match distinct.iter_mut().find(|(present, _)| *present == text) {
                Some((_, count)) => *count += 1,
                None => distinct.push((text, 1)),
            }
        }
        distinct.into_iter().map(|(text, count)| format!("{text} ({count} times)")).collect()
    }

    /// Fails where samples failed: after tables have been printed, so that it is not overlooked.
    ///
    /// # Errors
    /// The failures, one per line.
    pub(crate) fn expect_no_failures(&self) -> anyhow::Result<()> {
        let failures = self.failures();
        if !failures.is_empty() {
            anyhow::bail!("samples failed:\n{}", failures.join("\n"));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::{Measurement, SCHEMA, Variant, Verify, Workload};
    use super::*;
    use crate::environment::Environment;
    use std::collections::BTreeMap;

    /// The cell of the workload `w` of [`run`] on a variant.
    pub(crate) fn cell(variant: &str) -> Cell<'_> {
        Cell { workload: "w", tasks: 1, variant }
    }

    /// A run of one workload `w` with a value in ns per operation for each round and variant; a
    /// variant whose name ends with ` A/A` is a copy.
    pub(crate) fn run(baseline: &str, columns: &[(&str, &[Option<f64>])]) -> Run {
        let mut samples = Vec::new();
        for (variant, values) in columns {
            for (index, value) in values.iter().enumerate() {
                samples.push(Sample {
                    round: index as u32 + 1,
                    workload: "w".to_owned(),
                    tasks: 1,
                    variant: (*variant).to_owned(),
                    at_ms: samples.len() as u64,
                    measurement: value.map(measurement),
                    timeline: None,
                    failure: None,
                });
            }
        }
        let variant = |(name, _): &(&str, _)| match name.strip_suffix(" A/A") {
            Some(original) => Variant::new(original, "").copy(),
            None => Variant::new(name, ""),
        };
        let meta = Meta {
            schema: SCHEMA.to_owned(),
            experiment: "test".to_owned(),
            seed: 1,
            rounds: columns[0].1.len() as u32,
            baseline: baseline.to_owned(),
            variants: columns.iter().map(variant).collect(),
            workloads: vec![Workload::new("w", Verify::PerOperation(1))],
            tasks: vec![1],
            metrics: vec![Metric::time_per_operation().primary()],
            options: BTreeMap::new(),
            environment: Environment::capture(),
        };
        Run { meta, samples, warnings: Vec::new() }
    }

    /// Workload, tasks, variant, and a sample per round.
    pub(crate) type Cells = Vec<(String, u32, String, Vec<f64>)>;

    /// A run whose samples are values of a metric of the figure `value`; the variant of the first
    /// cell is the baseline.
    pub(crate) fn run_of(experiment: &str, metric: Metric, cells: &Cells) -> Run {
        let mut run = run(&cells[0].2, &[(&cells[0].2, &[])]);
        let meta = &mut run.meta;
        (meta.experiment, meta.metrics) = (experiment.to_owned(), vec![metric]);
        (meta.workloads, meta.tasks, meta.variants) = Default::default();
        for (workload, tasks, variant, values) in cells {
            if meta.workload(workload).is_none() {
                meta.workloads.push(Workload::new(workload, Verify::PerOperation(1)));
            }
            if meta.variant(variant).is_none() {
                meta.variants.push(Variant::new(variant, ""));
            }
            if !meta.tasks.contains(tasks) {
                meta.tasks.push(*tasks);
            }
            for (index, value) in values.iter().enumerate() {
                let mut measurement = measurement(1.0);
                measurement.figures.insert("value".to_owned(), *value);
                run.samples.push(Sample {
                    round: index as u32 + 1,
                    workload: workload.clone(),
                    tasks: *tasks,
                    variant: variant.clone(),
                    at_ms: 0,
                    measurement: Some(measurement),
                    timeline: None,
                    failure: None,
                });
            }
        }
        run.meta.validate().expect("a valid run");
        run
    }

    fn measurement(ns: f64) -> Measurement {
        let time_ns = (ns * 1000.0) as u64;
        Measurement { verified: 1000, ..Measurement::of_window(1000, time_ns, 1, 1, "libc.so.6") }
    }

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
    fn failures_are_counted() {
        let mut run = run("a", &[("a", &[None, None])]);
        assert!(run.expect_no_failures().is_ok());
        for sample in &mut run.samples {
            sample.failure = Some("signal 11".to_owned());
        }
        assert_eq!(run.failures(), ["w on a: signal 11 (2 times)"]);
        assert!(run.expect_no_failures().is_err());
    }
}
