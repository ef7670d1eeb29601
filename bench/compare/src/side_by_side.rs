//! The table that has the verdicts on fresh and on aged heaps beside each other.

use crate::closing;
use crate::judgement::{Judgements, verdict};
use quarry_harness::results::{Cell, Metric, Run};
use quarry_harness::table::{self, Table};

/// The table of each pair of workloads: for the metric that decides and for memory, medians on both
/// heaps, their quotient, and the differences from the baseline.
pub(super) fn text(run: &Run, judgements: &Judgements) -> String {
    let mut metrics = vec![run.meta.primary()];
    metrics.extend(closing::memory_of(&run.meta.metrics).filter(|it| !it.primary));
    let mut parts = Vec::new();
    for pair in run.meta.workloads.chunks_exact(2) {
        for metric in &metrics {
            let names = [&pair[0].name, &pair[1].name].map(String::as_str);
            parts.push(of_pair(run, judgements, names, metric));
        }
    }
    format!(
        "Fresh and aged heaps (medians; aged / fresh is their quotient; memory without the blocks \
         of ageing that stay in use):\n\n{}\n{}",
        parts.join("\n\n"),
        cost(run)
    )
}

fn of_pair(run: &Run, judgements: &Judgements, names: [&str; 2], metric: &Metric) -> String {
    let median = |workload: &str, variant: &str| {
        run.median(Cell { workload, tasks: 1, variant }, metric).filter(|it| it.is_finite())
    };
    let rows = run.meta.variants.iter().map(|variant| {
        let [fresh, aged] = names.map(|workload| median(workload, &variant.name));
        let quotient = fresh.zip(aged).filter(|(fresh, _)| *fresh > 0.0);
        let quotient = quotient.map(|(fresh, aged)| table::multiple(aged / fresh));
        let told = |workload: &str| {
            let judgement = judgements.get(workload, &variant.name, metric);
            judgement.map_or(String::new(), verdict)
        };
        let [on_fresh, on_aged] = names.map(told);
        vec![
            variant.name.clone(),
            table::figure_or(fresh, "-"),
            table::figure_or(aged, "-"),
            quotient.unwrap_or_else(|| "-".to_owned()),
            on_fresh,
            on_aged,
        ]
    });
    let label = metric.label();
    let head = [
        names[0].trim_end_matches(" heap=fresh").to_owned(),
        format!("{label}: fresh"),
        "aged".to_owned(),
        "aged / fresh".to_owned(),
        format!("against {}: fresh", run.meta.baseline),
        "aged".to_owned(),
    ];
    Table::of(head, rows).text()
}

/// A line on what ageing was, in the median of all samples.
fn cost(run: &Run) -> String {
    let all = |name: &str| -> Vec<f64> {
        let measured = run.samples.iter().filter_map(|it| it.measurement.as_ref());
        measured.filter_map(|it| it.counters.get(name)).map(|it| *it as f64).collect()
    };
    let median = |name| quarry_harness::statistics::median(&all(name));
    match (median("ageing_ns"), median("ageing_kept_bytes")) {
        (Some(ns), Some(bytes)) => format!(
            "Ageing took {:.2} s before `main`, which no time includes; {:.1} MiB of its blocks \
             stay in use, which no memory includes.\n",
            ns / 1e9,
            bytes / f64::from(1 << 20)
        ),
        _ => String::new(),
    }
}
