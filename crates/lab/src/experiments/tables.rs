//! Tables that several experiments print.

use quarry_harness::comparison::{Comparison, Group};
use quarry_harness::results::{Cell, Run};
use quarry_harness::{statistics, table};

/// Returns all workloads of a run as one group.
pub(super) fn all(name: &str, run: &Run) -> Vec<Group> {
    group(name, run.meta.workloads.iter().map(|workload| workload.name.clone()).collect())
}

/// Returns a group of workloads; nothing where there are none.
pub(super) fn group(name: &str, workloads: Vec<String>) -> Vec<Group> {
    let group = Group { name: name.to_owned(), workloads };
    if group.workloads.is_empty() { Vec::new() } else { vec![group] }
}

/// Formats medians and ratios of groups.
pub(super) fn compared(run: &Run, groups: Vec<Group>) -> String {
    Comparison { run, groups }.tables()
}

/// Formats medians of every metric, a row for each variant: of one workload, with one task.
pub(super) fn figures(title: &str, workload: &str, run: &Run) -> String {
    let names = run.meta.metrics.iter().map(|metric| metric.name.clone());
    let header = std::iter::once(title.to_owned()).chain(names).collect();
    let row = |variant: &str| {
        let cell = Cell { workload, tasks: 1, variant };
        let figures = run.meta.metrics.iter().map(|metric| {
            let values: Vec<f64> = run.values(cell, metric).into_iter().flatten().collect();
            let decimals = usize::from(metric.decimals);
            let median = statistics::median(&values);
            median.map_or("failed".to_owned(), |value| format!("{value:.decimals$}"))
        });
        std::iter::once(variant.to_owned()).chain(figures).collect()
    };
    table::render(header, run.meta.variants.iter().map(|variant| row(&variant.name)).collect())
}
