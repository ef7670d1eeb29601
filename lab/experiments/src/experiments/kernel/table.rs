//! The tables: the counts of each workload side by side, and a table of rates.

use super::rows::Row;
use super::variants::{GUEST, KERNEL, UNCOUNTED};
use crate::experiments::replay::beside::Beside;
use crate::witness::readings::PageLists;
use anyhow::Result;
use quarry_harness::judge::{self, Column, Selection};
use quarry_harness::results::{Metric, Run};
use quarry_harness::table;
use std::io::Write;

/// A ratio is marked if it differs from 1 by more than this.
const APART: f64 = 0.1;
/// Counts per operation below this, a few events in a sample, are not compared.
const FEW: f64 = 0.01;

pub(super) fn print(run: &Run, rows: &[&'static Row], out: &mut dyn Write) -> Result<()> {
    let selection = Selection::of(run);
    // The copy of an uncounted baseline is not counted either.
    let is_counted = |column: &&Column<'_>| !column.label.starts_with(UNCOUNTED);
    let all = run.meta.variants.iter().filter_map(|it| selection.column(&it.name));
    let columns: Vec<&Column<'_>> = all.filter(is_counted).collect();
    for of in &selection.rows {
        let Some(row) = rows.iter().find(|row| row.name == of.workload) else { continue };
        let tasks = table::counted(of.tasks, "task");
        writeln!(out, "{}: {}. Per {}, {tasks}:\n", row.name, row.about, row.each)?;
        writeln!(out, "{}\n", counts(run, &selection, *of, &columns))?;
    }
    writeln!(
        out,
        "Medians. \"!\": a kernel's count differs by more than 10 % from that of the policy on \
         its right, and one of them is at least {FEW} per operation. Rows of objects and files in \
         which all are smaller are left out. \"-\": not counted for this variant.\n"
    )?;
    // Without the running kernel only stacks have rates.
    if !run.meta.variants.iter().any(|it| it.name.starts_with(KERNEL)) {
        return Ok(());
    }
    writeln!(
        out,
        "Rates in the document's unit; `uncounted / kernel` is what the counters cost:\n"
    )?;
    writeln!(out, "{}\n", rates(run, &selection, rows)?)?;
    if let Some(PageLists { zone, high, batch, .. }) = PageLists::now() {
        writeln!(out, "When printed, a CPU's lists in zone {zone}: high {high}, batch {batch}.")?;
    }
    Ok(())
}

fn is_policy(variant: &str) -> bool {
    !variant.starts_with(KERNEL) && !variant.starts_with(GUEST)
}

/// The variant `kernel` and the first policy of the run, if the run has both.
fn compared<'a>(run: &Run, selection: &'a Selection<'a>) -> Option<[&'a Column<'a>; 2]> {
    let names = run.meta.variants.iter().map(|it| it.name.as_str());
    let policy = names.clone().find(|name| is_policy(name))?;
    Some([selection.column(KERNEL)?, selection.column(policy)?])
}

fn counts(
    run: &Run,
    selection: &Selection<'_>,
    of: judge::Row<'_>,
    columns: &[&Column<'_>],
) -> String {
    let compared = compared(run, selection);
    let mut head = vec!["count".to_owned()];
    head.extend(columns.iter().map(|column| column.label.clone()));
    head.extend(compared.map(|[kernel, policy]| format!("{} / {}", kernel.label, policy.label)));
    let line = |metric: &&Metric| {
        let value = |column: &Column<'_>| selection.median(column, of, metric);
        let values: Vec<Option<f64>> = columns.iter().map(|column| value(column)).collect();
        // Rows with few events are left out, because such counts are chance. Rows of page blocks
        // stay, because the pcp lists are meant to make those events rare.
        let least = if metric.name.contains("block") { 0.0 } else { FEW };
        values.iter().flatten().any(|value| *value > least).then(|| {
            let is_apart = |index: usize| {
                let policy = columns.get(index + 1).filter(|next| is_policy(&next.label));
                let beside = policy.filter(|_| columns[index].label.starts_with(GUEST));
                beside.is_some() && ratio(values[index], values[index + 1]).ends_with('!')
            };
            let text = |(index, value): (usize, &Option<f64>)| {
                table::figure_or(*value, "-") + if is_apart(index) { " !" } else { "" }
            };
            let texts = values.iter().enumerate().map(text);
            let mut line: Vec<String> = [metric.name.clone()].into_iter().chain(texts).collect();
            line.extend(compared.map(|[kernel, policy]| ratio(value(kernel), value(policy))));
            line
        })
    };
    let counts = run.meta.metrics.iter().filter(|metric| !metric.primary);
    table::render(head, counts.filter_map(|metric| line(&metric)).collect())
}

fn ratio(kernel: Option<f64>, policy: Option<f64>) -> String {
    let (Some(kernel), Some(policy)) = (kernel, policy) else { return String::new() };
    if kernel.max(policy) < FEW {
        return "few".to_owned();
    }
    if policy == 0.0 {
        return "!".to_owned();
    }
    let ratio = kernel / policy;
    let mark = if (ratio - 1.0).abs() > APART { " !" } else { "" };
    format!("{ratio:.2}{mark}")
}

fn rates(run: &Run, selection: &Selection<'_>, rows: &[&'static Row]) -> Result<String> {
    // A guest's time is a number of instructions, from which no rate follows.
    let timed = run.meta.variants.iter().filter(|it| !it.name.starts_with(GUEST));
    let columns: Vec<&Column<'_>> = timed.filter_map(|it| selection.column(&it.name)).collect();
    let uncounted = selection.column(KERNEL).and(selection.column(UNCOUNTED));
    let mut head = ["row", "tasks", "unit"].map(str::to_owned).to_vec();
    head.extend(columns.iter().map(|column| column.label.clone()));
    head.extend(uncounted.map(|_| "uncounted / kernel".to_owned()));
    head.push("document".to_owned());
    let primary = run.meta.metrics.iter().find(|metric| metric.primary);
    let mut lines = Vec::new();
    for of in &selection.rows {
        let Some(row) = rows.iter().find(|row| row.name == of.workload) else { continue };
        let replay = row.replay()?;
        // If the document gives a time in seconds, that is the time of its whole work, and no rate.
        let rate = Some(replay.rate()).filter(|rate| rate.unit != "s");
        let rate = rate.unwrap_or_else(|| Metric::rate(&format!("{}s/s", row.each)));
        let mut line = vec![of.workload.to_owned(), of.tasks.to_string(), rate.unit.clone()];
        let value =
            |column: &&Column<'_>| table::figure_or(selection.median(column, *of, &rate), "-");
        line.extend(columns.iter().map(value));
        if let (Some(column), Some(primary)) = (uncounted, primary) {
            line.push(selection.judge(column, &[*of], primary).text());
        }
        line.push(documented(&replay, of.tasks));
        lines.push(line);
    }
    Ok(table::render(head, lines))
}

/// The figures of the document's first and last kernel.
fn documented(replay: &Beside, tasks: u32) -> String {
    let figures = replay.documented(tasks);
    let ends = [figures.first(), figures.get(1..).and_then(<[_]>::last)].into_iter().flatten();
    let texts = ends.map(|it| format!("{} ({})", table::figure(it.value), it.kernel));
    let mut texts: Vec<String> = texts.collect();
    texts.insert(0, replay.document().to_owned() + if figures.is_empty() { ": none" } else { ":" });
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_marked_where_counts_differ() {
        assert_eq!(ratio(Some(1.0), Some(0.95)), "1.05");
        assert_eq!(ratio(Some(2.0), Some(1.0)), "2.00 !");
        assert_eq!(ratio(Some(1.0), Some(0.0)), "!");
        assert_eq!(ratio(Some(0.0001), Some(0.0)), "few");
        assert_eq!(ratio(None, Some(1.0)), "");
    }
}
