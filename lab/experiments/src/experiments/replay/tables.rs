//! The tables of a replay: rate or time in the document's unit, the document's figure, and counts
//! of locks; and the spread of the samples.

use super::documents::{Figure, beside};
use super::profile;
use super::spec::{ROOM, Spec};
use crate::deviations;
use anyhow::Result;
use quarry_harness::judge::{self, Column, Outcome, Reason, Selection};
use quarry_harness::results::{Cell, Direction, Metric, Run, Variant};
use quarry_harness::statistics::mmtests::Sorted;
use quarry_harness::table::{self, Table, counted};
use quarry_replay::policies::Policies;
use serde_json::{Map, Value, json};
use std::io::Write;

/// The variants in the order of `--variants`.
pub(super) fn columns<'a, 'b>(of: &'b Selection<'a>) -> impl Iterator<Item = &'b Column<'a>> {
    of.baseline().run.meta.variants.iter().filter_map(|it| of.column(&it.name))
}

/// The table of all figures.
pub(super) fn wide(selection: &Selection<'_>, spec: &'static Spec) -> String {
    let meta = &selection.baseline().run.meta;
    let mut header = ["row", "tasks", "policies"].map(str::to_owned).to_vec();
    for metric in &meta.metrics {
        if metric.primary {
            header.push(metric.unit.clone());
            header.push(format!("/ {}", meta.baseline));
            header.push(format!("document {}", spec.document.number));
            if spec.document.has_mainline() {
                header.push("mainline 5.14".to_owned());
            }
        } else {
            header.push(short_name(metric));
        }
    }
    let of_row = |row| columns(selection).map(move |column| line(selection, spec, row, column));
    table::render(header, selection.rows.iter().flat_map(|row| of_row(*row)).collect())
}

/// Prints how to read the table, the document's own finding, and further tables.
pub(super) fn print(run: &Run, spec: &'static Spec, out: &mut dyn Write) -> Result<()> {
    let selection = Selection::of(run);
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    writeln!(
        out,
        "Medians; --wide has all figures. Column \"/\": the ratio to the baseline within rounds, \
         with a 95 % interval if there are 6 samples, or +, -, = or ?: better, worse, the same or \
         undecided.\nColumn \"document\": the document's own ratio of this kernel to its \
         baseline.\n{}\nDocument {}: {}",
        line(spec.legend()),
        spec.document.number,
        line(&spec.document.finding),
    )?;
    if !spec.document.later.is_empty() {
        writeln!(out, "{}", line(&spec.document.later))?;
    }
    if let Some(note) = not_warm(run) {
        writeln!(out, "{note}")?;
    }
    if spec.spread {
        writeln!(out, "\n{}", spread(&selection, spec)?)?;
    }
    if spec.profile {
        writeln!(out)?;
        profile::print(run, out)?;
        writeln!(out, "Caches since the start of the processes, `slabinfo -AD`:\n")?;
        write!(out, "{}{}", profile::slabinfo(run), profile::documented_slabinfo())?;
    }
    Ok(())
}

/// The medians of a run, line by line, by the names of the columns, with the columns' units:
/// `lines[..]["zone locks"]`. A missing value is null.
pub(super) fn json(run: &Run) -> Value {
    let selection = Selection::of(run);
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
    let of_row = |row| columns(&selection).map(move |column| line(row, column));
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

pub(super) fn documented(
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

/// Mean, standard deviation and coefficient of variation of each row and variant, as mmtests and
/// document 000 report them, and an F-test of the deviations.
fn spread(selection: &Selection<'_>, spec: &'static Spec) -> Result<String> {
    let higher = selection.metric.direction == Direction::Higher;
    let mean = if higher { "Hmean" } else { "Amean" };
    let document = format!("Stddev, document {}", spec.document.number);
    let beside_base = format!("Stddev / {}", selection.baseline().label);
    let header =
        ["row", "tasks", "policies", mean, "Stddev", "CoeffVar, %", &beside_base, &document];
    let several = |value: f64| Some(value).filter(|value| value.is_finite());
    let quotient = |column: &Column<'_>, row| match deviations::beside(selection, column, row) {
        _ if column.label == selection.baseline().label => "1".to_owned(),
        quotient => quotient.map_or("-".to_owned(), |it| it.text()),
    };
    let mut lines = Vec::new();
    for &row in &selection.rows {
        for column in selection.originals() {
            let samples = selection.samples(column, row, selection.metric);
            let Some(sorted) = Sorted::new(samples) else { continue };
            let name = &column.variant.name;
            let of = spec.row(row.workload)?;
            let documented = spec.document.spread(&of, row.tasks, &name.parse::<Policies>()?);
            lines.push(vec![
                row.workload.to_owned(),
                row.tasks.to_string(),
                name.clone(),
                table::figure(if higher { sorted.hmean() } else { sorted.amean() }),
                table::figure_or(several(sorted.stddev()), "-"),
                table::figure_or(several(sorted.coeff()), "-"),
                quotient(column, row),
                beside(documented),
            ]);
        }
    }
    let judged = deviations::wins_and_losses(selection).map(|it| it + "\n\n");
    Ok(judged.unwrap_or_default() + &Table::of(header, lines).text_of(ROOM))
}

/// Samples below this length are short; usual ones have 200 ms.
const SHORT_MS: u64 = 100;

/// A variant with at least this many new slabs per operation is named; a warm one has almost none.
const SLABS: f64 = 0.01;

/// A line that names the variants that were not warm in a run of short samples, if there are any.
fn not_warm(run: &Run) -> Option<String> {
    let millis: u64 = run.meta.options.get("millis")?.parse().ok()?;
    if millis >= SHORT_MS {
        return None;
    }
    let selection = Selection::of(run);
    let mut cold = Vec::new();
    for &row in &selection.rows {
        for variant in run.meta.variants.iter().filter(|it| it.copy_of.is_none()) {
            let slabs = slabs_per_operation(run, row, variant);
            if slabs >= SLABS {
                let (name, judge::Row { workload, tasks }) = (&variant.name, row);
                let tasks = counted(tasks, "task");
                cold.push(format!("{name} ({workload}, {tasks}: {slabs:.2})"));
            }
        }
    }
    (!cold.is_empty()).then(|| {
        format!(
            "Not warm after {millis} ms, or never at rest: {}. The figure is new slabs per \
             operation while the sample ran; until lists and arrays are full, slow allocations and \
             locks are those of filling them. --millis=200 or more shows which it is.",
            cold.join(", ")
        )
    })
}

fn slabs_per_operation(run: &Run, row: judge::Row<'_>, variant: &Variant) -> f64 {
    let (mut slabs, mut operations) = (0, 0);
    for measured in profile::measured(run, row.workload, row.tasks, variant) {
        slabs += measured.counters.get("slabs").copied().unwrap_or(0);
        operations += measured.operations;
    }
    slabs as f64 / operations.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_harness::results::examples;

    fn run(millis: u64, slabs: u64) -> Run {
        let value: &[Option<f64>] = &[Some(5.0)];
        let mut run = examples::run("base", &[("base", value), ("base A/A", value)]);
        run.meta.options.insert("millis".to_owned(), millis.to_string());
        for sample in &mut run.samples {
            let measured = sample.measurement.as_mut().expect("a value");
            measured.counters.insert("slabs".to_owned(), slabs * measured.operations);
        }
        run
    }

    #[test]
    fn a_short_run_that_makes_slabs_is_not_warm() {
        let said = not_warm(&run(20, 2)).expect("a note");
        assert!(
            said.starts_with("Not warm after 20 ms, or never at rest: base (w, 1 task: 2.00). ")
        );
        assert_eq!(said.matches("base").count(), 1, "the copy is not named: {said}");
        assert_eq!(not_warm(&run(20, 0)), None);
        assert_eq!(not_warm(&run(200, 2)), None);
    }
}
