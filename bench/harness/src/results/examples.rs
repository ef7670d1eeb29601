//! Makes runs of given values, for tests.

use super::{Cell, Measurement, Meta, Metric, Run, SCHEMA, Sample, Variant, Verify, Workload};
use crate::environment::Environment;

/// The cell of workload `w` in [`run`] for a variant.
pub fn cell(variant: &str) -> Cell<'_> {
    Cell { workload: "w", tasks: 1, variant }
}

/// A run of one workload `w`, with ns per operation by round and variant; ` A/A` marks a copy.
pub fn run(baseline: &str, columns: &[(&str, &[Option<f64>])]) -> Run {
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
                ..Sample::default()
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
        environment: Environment::capture(),
        ..Meta::default()
    };
    Run { meta, samples, warnings: Vec::new() }
}

/// Workload, tasks, variant, and a sample per round.
pub type Cells = Vec<(String, u32, String, Vec<f64>)>;

/// A run of values of a metric over the figure `value`; the first cell's variant is the baseline.
pub fn run_of(experiment: &str, metric: Metric, cells: &Cells) -> Run {
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
                measurement: Some(measurement),
                ..Sample::default()
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
