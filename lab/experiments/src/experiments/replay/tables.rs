//! The table of a replay: rate or time in the document's unit, the document's figure, and counts of
//! locks.

use super::documents::{Figure, beside};
use super::spec::Spec;
use super::{profile, slabinfo, spread, warm};
use anyhow::Result;
use quarry_harness::judge::{self, Column, Outcome, Reason, Selection};
use quarry_harness::results::{Cell, Metric, Run};
use quarry_harness::table;
use quarry_replay::policies::Policies;
use serde_json::{Map, Value, json};
use std::io::Write;

pub(super) fn print(run: &Run, spec: &'static Spec, out: &mut dyn Write) -> Result<()> {
    let mut header = ["row", "tasks", "policies"].map(str::to_owned).to_vec();
    for metric in &run.meta.metrics {
        if metric.primary {
            header.push(metric.unit.clone());
            header.push(format!("/ {}", run.meta.baseline));
            header.push(format!("document {}", spec.document.number));
            if spec.document.has_mainline() {
                header.push("mainline 5.14".to_owned());
            }
        } else {
            header.push(short_name(metric));
        }
    }
    let selection = Selection::of(run);
    let mut rows = Vec::new();
    for row in &selection.rows {
        // In the order of `--variants`.
        let columns = run.meta.variants.iter().filter_map(|it| selection.column(&it.name));
        rows.extend(columns.map(|column| line(&selection, spec, *row, column)));
    }
    writeln!(out, "{}", table::render(header, rows))?;
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    writeln!(
        out,
        "\nMedians. Column \"/\": the ratio to the baseline within rounds, with a 95 % interval if \
         there are 6 samples.\nColumn \"document\": the document's own ratio of this kernel to its \
         baseline, with the kernel's name and its rate.\n{}\nDocument {}: {}",
        line(spec.legend()),
        spec.document.number,
        line(&spec.document.finding),
    )?;
    if !spec.document.later.is_empty() {
        writeln!(out, "{}", line(&spec.document.later))?;
    }
    if let Some(note) = warm::note(run) {
        writeln!(out, "{note}")?;
    }
    if spec.spread {
        writeln!(out, "\n{}", spread::table(&selection, spec)?)?;
    }
    if spec.profile {
        writeln!(out)?;
        profile::print(run, out)?;
        writeln!(out, "Caches since the start of the processes, `slabinfo -AD`:\n")?;
        write!(out, "{}{}", slabinfo::text(run), profile::documented_slabinfo())?;
    }
    Ok(())
}

/// The medians of a run, line by line, by the names of the columns, with the columns' units:
/// `lines[..]["zone locks"]`. A missing value is null.
pub(super) fn json(run: &Run) -> Value {
    let selection = Selection::of(run);
    let columns = || run.meta.variants.iter().filter_map(|it| selection.column(&it.name));
    let line = |row: &judge::Row<'_>, column: &Column<'_>| {
        let mut line = json!({
            "row": row.workload,
            "tasks": row.tasks,
            "policies": column.label,
        });
        for metric in &run.meta.metrics {
            line[&metric.name] = selection.median(column, *row, metric).into();
        }
        line
    };
    let of_row = |row| columns().map(move |column| line(row, column));
    let units = run.meta.metrics.iter().map(|it| (it.name.clone(), Value::from(it.unit.as_str())));
    json!({
        "experiment": run.meta.experiment,
        "baseline": run.meta.baseline,
        "units": units.collect::<Map<String, Value>>(),
        "lines": selection.rows.iter().flat_map(of_row).collect::<Vec<Value>>(),
    })
}

fn short_name(metric: &Metric) -> String {
    match metric.unit.as_str() {
        "per operation" => metric.name.clone(),
        unit => format!("{}, {unit}", metric.name),
    }
}

fn line<'a>(
    selection: &Selection<'a>,
    spec: &'static Spec,
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
            let figures = documented(spec, row, column);
            line.push(beside(figures.0));
            if spec.document.has_mainline() {
                line.push(figures.1.map_or(String::new(), |ratio| format!("{ratio:.3}")));
            }
        }
    }
    line
}

fn documented(
    spec: &'static Spec,
    row: judge::Row<'_>,
    column: &Column<'_>,
) -> (Option<Figure>, Option<f64>) {
    let known = |name: &str| anyhow::Ok((spec.row(row.workload)?, name.parse::<Policies>()?));
    match known(&column.variant.name) {
        Ok((of, policies)) if column.variant.copy_of.is_none() => (
            spec.document.figure(&of, row.tasks, &policies),
            spec.document.mainline(&of, &policies),
        ),
        _ => (None, None),
    }
}
