//! `quarry lab compare`: tables of runs that were taken before.

use crate::comparison::{Comparison, Group};
use crate::results;
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
            run.expect_no_failures()?;
        }
        Ok(())
    }
}
