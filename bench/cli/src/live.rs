//! Common parts of the commands that examine running processes.
//!
//! Standard output has the kernel's layout and nothing else, so that tools for the kernel's files
//! can read it. The process and the age of the figures go to standard error.

use anyhow::Result;
use clap::builder::{PathBufValueParser, TypedValueParser};
use quarry_live::{Choice, Problem, Snapshot, Tree, core_dump, total};
use std::io::{self, Write};
use std::path::PathBuf;

/// The processes whose statistics are wanted, and the form of the output.
#[derive(clap::Args)]
pub(crate) struct Target {
    #[command(flatten)]
    running: Running,
    #[command(flatten)]
    file: CoreFile,
    /// Print all statistics as JSON, one line for each process.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct Running {
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Include its descendants.
    #[arg(long)]
    pub(crate) tree: bool,
}

#[derive(clap::Args)]
pub(crate) struct CoreFile {
    /// A core dump of a process instead of a running one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["choice", "tree"],
        value_parser = PathBufValueParser::new().try_map(|it| it.metadata().map(|_| it)))]
    pub(crate) core: Option<PathBuf>,
}

impl Target {
    pub(crate) fn print(
        &self,
        layout: impl Fn(&Snapshot) -> String,
        out: &mut dyn Write,
    ) -> Result<()> {
        let snapshot = self.read()?;
        // The figures are printed even if standard error is closed or full.
        let _ = writeln!(io::stderr(), "quarry: {}", snapshot.heading());
        match self.json {
            true => out.write_all(snapshot.json.as_bytes())?,
            false => out.write_all(layout(&snapshot).as_bytes())?,
        }
        Ok(())
    }

    fn read(&self) -> Result<Snapshot, Problem> {
        if let Some(file) = &self.file.core {
            return Ok(total::of(&core_dump::read(file)?));
        }
        let Running { choice, tree } = &self.running;
        let Tree { snapshots, others } = choice.settled()?.read(*tree)?;
        if others > 0 {
            let _ = writeln!(io::stderr(), "quarry: processes that publish nothing: {others}");
        }
        Ok(total::of(&snapshots))
    }
}
