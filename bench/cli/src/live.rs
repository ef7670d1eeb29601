//! Common parts of the commands that examine a running process.
//!
//! Standard output has the kernel's layout and nothing else, so that tools for the kernel's files
//! can read it. The process and the age of the figures go to standard error.

use anyhow::Result;
use quarry_live::{Problem, Process, Snapshot, core_dump, read_tree, total};
use std::io::{self, Write};
use std::path::PathBuf;

/// Whose statistics are wanted, and in which form.
#[derive(clap::Args)]
pub(crate) struct Target {
    #[command(flatten)]
    source: Source,
    /// Sum over the process and its descendants.
    #[arg(long, requires = "pid")]
    tree: bool,
    /// Print all of the statistics as JSON, a line for each process.
    #[arg(long)]
    json: bool,
}

/// A process that is looked at again and again.
#[derive(clap::Args)]
pub(crate) struct Running {
    /// The process, which runs on Quarry.
    #[arg(long, value_name = "N", value_parser = quarry_live::parse_pid)]
    pub(crate) pid: u32,
    /// Include its descendants.
    #[arg(long)]
    pub(crate) tree: bool,
}

/// A process, or what is left of one.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// The process, which runs on Quarry.
    #[arg(long, value_name = "N", value_parser = quarry_live::parse_pid)]
    pid: Option<u32>,
    /// A core dump of one.
    #[arg(long, value_name = "FILE")]
    core: Option<PathBuf>,
}

pub(crate) type Layout = fn(&Snapshot) -> String;

impl Target {
    pub(crate) fn print(&self, layout: Layout, out: &mut dyn Write) -> Result<()> {
        self.print_changed(layout, |_| {}, out)
    }

    /// Like `print`, after a `change` of the figures.
    pub(crate) fn print_changed(
        &self,
        layout: Layout,
        change: impl Fn(&mut Snapshot),
        out: &mut dyn Write,
    ) -> Result<()> {
        let mut snapshot = self.read()?;
        change(&mut snapshot);
        // If standard error is closed or full, the figures are printed all the same.
        let _ = writeln!(io::stderr(), "quarry: {}", snapshot.heading());
        match self.json {
            true => out.write_all(snapshot.json.as_bytes())?,
            false => out.write_all(layout(&snapshot).as_bytes())?,
        }
        Ok(())
    }

    pub(crate) fn read(&self) -> Result<Snapshot, Problem> {
        match (&self.source.pid, &self.source.core) {
            (Some(pid), _) if self.tree => {
                let tree = read_tree(*pid)?;
                if tree.others > 0 {
                    let _ = writeln!(
                        io::stderr(),
                        "quarry: {} more processes of the tree publish nothing",
                        tree.others
                    );
                }
                Ok(total::of(&tree.snapshots))
            }
            (Some(pid), _) => Process::new(*pid)?.read(),
            (None, Some(file)) => Ok(total::of(&core_dump::read(file)?)),
            (None, None) => Err(Problem::NoProcess { pid: 0 }),
        }
    }
}
