//! The table of a replay: the rate or time in the original's unit, the document's figure beside it,
//! and the counts of the locks.

use super::documents::Figure;
use super::spec::Spec;
use anyhow::Result;
use quarry_harness::judge::{self, Column, Outcome, Reason, Selection};
use quarry_harness::results::{Cell, Metric, Run};
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
    let selection = Selection::of(run);
    let mut rows = Vec::new();
    for row in &selection.rows {
        // In the order that was asked for.
        let columns = run.meta.variants.iter().filter_map(|it| selection.column(&it.name));
        rows.extend(columns.map(|column| line(&selection, spec, *row, column)));
    }
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

fn line<'a>(
    selection: &Selection<'a>,
    spec: &Spec,
    row: judge::Row<'a>,
    column: &Column<'a>,
) -> Vec<String> {
    let (judge::Row { workload, tasks }, variant) = (row, &column.label);
    let cell = Cell { workload, tasks, variant };
    let failed = column.run.samples_of(cell).any(|sample| sample.failure.is_some());
    let mut line = vec![workload.to_owned(), tasks.to_string(), variant.clone()];
    for metric in &column.run.meta.metrics {
        let median = selection.median(column, row, metric);
        line.push(table::figure_or(median, if failed { "failed" } else { "-" }));
        if metric.primary {
            let judgement = selection.judge(column, &[row], metric);
            line.push(match judgement.outcome {
                Outcome::NoVerdict(Reason::Baseline) => "1".to_owned(),
                outcome @ Outcome::NoVerdict(_) => outcome.word().to_owned(),
                _ => judgement.text(),
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
