//! `quarry lab compare`: prints tables of earlier runs, in modern and in well-known styles.
//!
//! ```text
//! modern         medians, ratios with intervals, verdicts
//! json           every judgement, for programs
//! mmtests        layout and rows of that tool in 2017
//! of_documents   the tables of documents 000 and 001 in that layout
//! tcp_rr         the table of document 002
//! will_it_scale  the table of document 004
//! matrix         a column for each variant, as experiments print them
//! targets        what a run was to reach
//! processors     what was reached on each processor (`quarry lab targets`)
//! ```
//!
//! A new style is a file here, a name in `Style`, and its arm in `CompareArgs::run`.

mod matrix;
mod mmtests;
pub mod modern;
mod of_documents;
mod processors;
pub mod published;
mod targets;
mod tcp_rr;
mod will_it_scale;

#[cfg(test)]
mod golden;

pub use matrix::{Group, Matrix};
pub use processors::TargetsArgs;
pub use targets::of as targets_of;

use self::of_documents::Documented;
use crate::judge::{Reached, Selection};
use crate::results::{self, Cell, Metric, Run, Variant};
use crate::table::Table;
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Print tables of results directories.
///
/// Variants of several directories are shown side by side; only those of the baseline's own run are
/// paired with it, round by round. Rows are the workloads that all runs have.
#[derive(Args)]
pub struct CompareArgs {
    /// Directories that `quarry lab run .. --out DIR` has made.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// The variant that the others are compared with [default: that of the first directory].
    #[arg(long, value_name = "V")]
    baseline: Option<String>,
    /// Style of the table.
    #[arg(long, value_enum, default_value = "modern")]
    style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Style {
    /// As mmtests printed them in 2017: positive percentages are better.
    Mmtests,
    /// As in document 002: a row per number of tasks, medians, and the difference in percent.
    TcpRr,
    /// As in document 004: a block per number of tasks, means, deviations and speed-ups.
    WillItScale,
    /// Medians, ratios with 95 % intervals, verdicts.
    Modern,
    /// The judgements on which the verdicts rest, as JSON.
    Json,
}

impl CompareArgs {
    /// Reads the directories and prints their tables to `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<()> {
        let runs = self
            .directories
            .iter()
            .map(|place| Ok((place.display().to_string(), results::read(place)?)))
            .collect::<Result<Vec<(String, Run)>>>()?;
        let selection = Selection::new(&runs, self.baseline.as_deref())?;
        if self.style != Style::Json {
            for warning in &selection.warnings {
                writeln!(out, "warning: {warning}")?;
            }
        }
        let text = match self.style {
            Style::Mmtests => mmtests(&selection),
            Style::TcpRr => tcp_rr::table(&selection),
            Style::WillItScale => will_it_scale::table(&selection),
            Style::Modern => modern(&selection),
            Style::Json => serde_json::to_string_pretty(&json(&selection))?,
        };
        writeln!(out, "{text}")?;
        Ok(())
    }
}

/// The table of a selection, and below it the documents' tables for the same experiment.
fn mmtests(selection: &Selection<'_>) -> String {
    let mut text = mmtests::table(selection).to_string();
    let experiment = &selection.baseline().run.meta.experiment;
    for Documented { number, machine, table } in of_documents::tables(experiment) {
        text += &format!("\n\nAs document {number} has it ({machine}):\n\n{table}");
    }
    text
}

fn modern(selection: &Selection<'_>) -> String {
    let mut text = String::new();
    for (place, run) in &selection.runs {
        text += &format!("{place}, {}: {}", run.meta.experiment, run.head("see meta.json."));
    }
    for (table, legend) in selection.runs.iter().filter_map(|(_, run)| targets::of(run)) {
        text += &format!("\n{}\n\n{legend}\n", table.text());
    }
    let mut table = modern::table(selection);
    // Repeated names in the first column are blanked.
    for index in (1..table.rows.len()).rev() {
        if table.rows[index].first() == table.rows[index - 1].first() {
            table.rows[index][0].text.clear();
        }
    }
    text + &format!("\n{}\n\n{}", table.text(), modern::legend(selection))
}

/// Every judgement on the primary metric, means last, and the targets.
fn json(selection: &Selection<'_>) -> Value {
    let judge = |(_, rows): &(_, Vec<_>)| {
        let of = |column| selection.judge(column, rows, selection.metric).json();
        selection.columns[1..].iter().map(of).collect::<Vec<Value>>()
    };
    let judgements: Vec<Value> =
        selection.subjects_of(selection.metric).iter().flat_map(judge).collect();
    let reached = selection.runs.iter().flat_map(|(_, run)| Reached::all(run));
    json!({
        "schema": "quarry-judgements/1",
        "runs": selection.runs.iter().map(|(place, _)| place).collect::<Vec<_>>(),
        "warnings": selection.warnings,
        "judgements": judgements,
        "targets": reached.map(|it| it.json()).collect::<Vec<Value>>(),
    })
}

/// A row for each variant with its medians on one workload; `what` is the head of the first column.
pub fn by_variant(run: &Run, workload: &str, what: &str) -> Table {
    let medians = |variant: &Variant| {
        let text = |metric: &Metric| {
            let cell = Cell { workload, tasks: run.meta.tasks[0], variant: &variant.name };
            let decimals = usize::from(metric.decimals);
            run.median(cell, metric)
                .map_or("failed".to_owned(), |value| format!("{value:.decimals$}"))
        };
        let medians = run.meta.metrics.iter().map(text);
        std::iter::once(variant.name.clone()).chain(medians).collect::<Vec<String>>()
    };
    let names = run.meta.metrics.iter().map(|metric| metric.name.as_str());
    Table::of(std::iter::once(what).chain(names), run.meta.variants.iter().map(medians))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::examples;

    #[test]
    fn every_style_has_the_copy_of_the_baseline() {
        let (base, new): (&[Option<f64>], &[Option<f64>]) = (&[Some(5.0)], &[Some(4.0)]);
        let run = examples::run("base", &[("base", base), ("new", new), ("base A/A", base)]);
        let selection = Selection::of(&run);
        for text in
            [mmtests(&selection), tcp_rr::table(&selection), will_it_scale::table(&selection)]
        {
            assert!(text.contains("base A/A") && text.contains("new"), "{text}");
        }
    }
}
