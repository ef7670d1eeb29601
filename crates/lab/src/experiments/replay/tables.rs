//! The table of a replay: the rate or time in the original's unit, the document's figure beside it,
//! and the counts of the locks.

use super::documents::Figure;
use super::spec::Spec;
use anyhow::Result;
use quarry_harness::results::{Cell, Metric, Run};
use quarry_harness::statistics;
use quarry_harness::table;
use std::io::Write;

/// Prints one line per row, number of tasks and variant.
pub(super) fn print(run: &Run, spec: &Spec, out: &mut dyn Write) -> Result<()> {
    let mut header = ["row", "tasks", "policies"].map(str::to_owned).to_vec();
    for metric in &run.meta.metrics {
        if metric.primary {
            header.push(metric.unit.clone());
            header.push(format!("/ {}", run.meta.baseline));
            header.push(format!("document {}", spec.document.number));
        } else {
            header.push(short_name(metric));
        }
    }
    let rows = cells(run).map(|cell| line(run, spec, cell)).collect();
    writeln!(out, "{}", table::render(header, rows))?;
    writeln!(
        out,
        "\nMedians; / is the ratio to the baseline within rounds, with its 95 % interval from 6 \
         samples on.\nOf the document: the ratio of its two kernels, and its figure. Locks, zone \
         calls, critical sections\nof frees and slab locks are per operation, slabs made per \
         1,000. \"Found held\": of 100 times.\nDocument {}: {}",
        spec.document.number,
        spec.document.finding.split_whitespace().collect::<Vec<_>>().join(" ")
    )?;
    Ok(())
}

fn short_name(metric: &Metric) -> String {
    match metric.unit.as_str() {
        "per operation" => metric.name.clone(),
        unit => format!("{}, {unit}", metric.name),
    }
}

fn cells(run: &Run) -> impl Iterator<Item = Cell<'_>> {
    run.meta.workloads.iter().flat_map(move |workload| {
        run.meta.tasks.iter().flat_map(move |&tasks| {
            run.meta.variants.iter().map(move |variant| Cell {
                workload: workload.name.as_str(),
                tasks,
                variant: variant.name.as_str(),
            })
        })
    })
}

fn line(run: &Run, spec: &Spec, cell: Cell<'_>) -> Vec<String> {
    let Cell { workload, tasks, variant } = cell;
    let mut line = vec![workload.to_owned(), tasks.to_string(), variant.to_owned()];
    for metric in &run.meta.metrics {
        let rounds = run.values(cell, metric);
        let values: Vec<f64> = rounds.iter().copied().flatten().collect();
        let failed = run.samples_of(cell).any(|sample| sample.failure.is_some());
        let absent = if failed { "failed" } else { "-" };
        line.push(statistics::median(&values).map_or(absent.to_owned(), table::figure));
        if metric.primary {
            let baseline = Cell { variant: &run.meta.baseline, ..cell };
            let ratios = statistics::paired_ratios(&rounds, &run.values(baseline, metric));
            let ratios: Vec<f64> = ratios.into_iter().flatten().collect();
            line.push(match variant == run.meta.baseline {
                true => "1".to_owned(),
                false => table::ratio(statistics::estimate(&ratios), None),
            });
            line.push(beside(spec.document.figure(workload, tasks, variant)));
        }
    }
    line
}

/// Formats a document's figure.
fn beside(figure: Option<Figure>) -> String {
    match figure {
        None => String::new(),
        Some(Figure { kernel, value, ratio }) => {
            format!("{ratio:.3} ({kernel} {})", table::figure(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_documents_figure_is_printed_with_its_ratio() {
        let figure = Figure { kernel: "hopcpu-v5".to_owned(), value: 260.54, ratio: 1.4606 };
        assert_eq!(beside(Some(figure)), "1.461 (hopcpu-v5 261)");
        assert_eq!(beside(None), "");
    }
}
