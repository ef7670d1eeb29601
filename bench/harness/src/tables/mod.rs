//! `quarry lab compare`: prints tables of earlier runs, in modern and in well-known styles.
//!
//! ```text
//! modern         medians, ratios with intervals, verdicts
//! json           every judgement, for programs
//! matrix         a column for each variant, as experiments print them
//! targets        what a run was to reach
//! processors     what was reached on each processor (`quarry lab targets`)
//! ```
//!
//! The caller that offers the command may add styles ([`Style`]).

mod matrix;
pub mod modern;
mod processors;
mod targets;

pub use matrix::{Group, Matrix};
pub use processors::TargetsArgs;
pub use targets::of as targets_of;

use crate::judge::{Reached, Selection};
use crate::nearest;
use crate::results::{self, Cell, Metric, Run, Variant};
use crate::table::Table;
use anyhow::Result;
use clap::Args;
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
    /// Style of the table; the error of an unknown one names all.
    #[arg(long, default_value = MODERN)]
    style: String,
}

/// A style of the tables that `compare` prints.
#[derive(Clone, Copy)]
pub struct Style {
    /// Its name for `--style`.
    pub name: &'static str,
    /// The tables of a selection, without a newline at the end.
    pub tables: fn(&Selection<'_>) -> String,
}

/// Medians, ratios with 95 % intervals, verdicts.
const MODERN: &str = "modern";
/// The judgements on which the verdicts rest.
const JSON: &str = "json";

const OWN: [Style; 2] = [
    Style { name: MODERN, tables: modern },
    Style { name: JSON, tables: |selection| format!("{:#}", json(selection)) },
];

impl CompareArgs {
    /// Reads the directories and prints their tables to `out`. `styles` are those of the caller,
    /// beside `modern` and `json`.
    ///
    /// # Errors
    /// If there is no such style, a directory cannot be read or `out` not written, or the runs have
    /// nothing in common.
    pub fn run(self, styles: &[Style], out: &mut dyn Write) -> Result<()> {
        let all = || OWN.iter().chain(styles);
        let style = all().find(|style| style.name == self.style).ok_or_else(|| {
            let names: Vec<&str> = all().map(|style| style.name).collect();
            nearest::unknown("style", &self.style, &names)
        })?;
        let runs = self
            .directories
            .iter()
            .map(|place| Ok((place.display().to_string(), results::read(place)?)))
            .collect::<Result<Vec<(String, Run)>>>()?;
        let selection = Selection::new(&runs, self.baseline.as_deref())?;
        if style.name != JSON {
            for warning in &selection.warnings {
                writeln!(out, "warning: {warning}")?;
            }
        }
        writeln!(out, "{}", (style.tables)(&selection))?;
        Ok(())
    }
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
