//! `quarry lab compare`: tables of runs that were taken before.

use crate::comparison::{Comparison, Group};
use crate::results::{self, Cell, Run};
use crate::statistics::verdict::{self, Verdict};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Print the tables of results directories.
#[derive(Args)]
pub struct CompareArgs {
    /// Directories that `quarry lab run .. --out DIR` has made.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
}

impl CompareArgs {
    /// Reads the directories and prints their tables to `out`.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        for directory in &self.directories {
            let run = results::read(directory)?;
            for warning in &run.warnings {
                writeln!(out, "warning: {warning}")?;
            }
            let workloads = run.meta.workloads.iter().map(|workload| workload.name.clone());
            let name = run.meta.experiment.clone();
            let group = Group { name, workloads: workloads.collect() };
            let comparison = Comparison { run: &run, groups: vec![group] };
            writeln!(out, "{}\n{}", run.head("see meta.json."), comparison.tables())?;
            writeln!(out, "\nVerdicts:\n")?;
            for line in verdicts(&run) {
                writeln!(out, "* {line}")?;
            }
            run.expect_no_failures()?;
        }
        Ok(())
    }
}

/// One line per workload, number of tasks and variant.
fn verdicts(run: &Run) -> Vec<String> {
    let meta = &run.meta;
    let metric = meta.primary();
    let mut lines = Vec::new();
    for workload in &meta.workloads {
        for &tasks in &meta.tasks {
            let of = |variant: &str| {
                run.values(Cell { workload: &workload.name, tasks, variant }, metric)
            };
            let (baseline, copy) = (of(&meta.baseline), meta.copy().map(|it| of(&it.name)));
            let others = meta.variants.iter().filter(|it| it.name != meta.baseline);
            for variant in others.filter(|it| it.copy_of.is_none()) {
                let values = of(&variant.name);
                let verdict =
                    verdict::paired(&values, &baseline, copy.as_deref(), metric.direction);
                let said = verdict.map_or("no verdict".to_owned(), |it| said(&it));
                lines.push(format!("{}, {tasks} tasks, {}: {said}", workload.name, variant.name));
            }
        }
    }
    lines
}

fn said(verdict: &Verdict) -> String {
    let Verdict { outcome, ratio, interval, noise, runs, more_runs } = verdict;
    let mut text = format!("{}, {ratio:.3} of the baseline", outcome.word());
    if let Some(interval) = interval {
        text += &format!(" [{:.3}, {:.3}]", interval.low, interval.high);
    }
    if let Some(noise) = noise {
        text += &format!(", noise [{:.3}, {:.3}]", noise.low, noise.high);
    }
    text += &format!(", {runs} runs");
    match more_runs {
        Some(more) => text + &format!("; {more} more would settle it"),
        None => text,
    }
}
