//! `quarry lab report`: runs as one page that needs nothing else, for a phone as for a screen.
//!
//! ```text
//! page      the whole file: head, theme, sections
//! section   the runs of one experiment
//! source    where they come from: command, input, date; verdicts as Markdown
//! verdicts  matrices of verdicts
//! forest    intervals
//! boxes     box plots with every sample
//! curves    scaling over the number of tasks
//! memory    memory over time
//! scatter   speed against memory
//! counters  counts per operation
//! card      a picture with its caption and its data
//! grid      a table
//! lane      the words above what is drawn of a variant
//! axes, scale, palette  what pictures share
//! ```
//!
//! Every ratio and verdict comes from [`crate::judge`], and every table is one of
//! [`crate::tables`]: the page says what the terminal says. The same runs give the same bytes.
//!
//! A new picture is a file here, and a call in `section`.

mod axes;
mod boxes;
mod card;
mod counters;
mod curves;
mod forest;
mod grid;
mod lane;
mod memory;
mod page;
mod palette;
mod scale;
mod scatter;
mod section;
mod source;
mod verdicts;

use crate::destination::{Destination, Present};
use crate::judge::Selection;
use crate::results::{self, Run};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Write results directories as one page with pictures and tables.
///
/// The page is a single file that needs no network: light and dark, for phones, screens and paper.
/// Runs of the same experiment stand side by side, as `quarry lab compare` has them.
#[derive(Args)]
pub struct ReportArgs {
    /// Directories that `quarry lab run .. --out DIR` has made.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// The file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

impl ReportArgs {
    /// Reads the directories and writes the page; `out` is told where it is.
    pub fn run(self, out: &mut dyn Write) -> Result<()> {
        let present = match self.force {
            true => Present::Replaced,
            false => Present::Refused("it is replaced only with --force"),
        };
        let place = Destination::open("--output", &self.output, present)?;
        place.write(page(read(&self.directories)?)?.as_bytes())?;
        Ok(writeln!(out, "{}", self.output.display())?)
    }
}

/// The page of runs, each with its name.
///
/// # Errors
/// Where a run has nothing that can be compared.
pub fn page(runs: Vec<(String, Run)>) -> Result<String> {
    let groups = grouped(runs);
    let selections: Vec<Selection<'_>> =
        groups.iter().map(|runs| Selection::new(runs, None)).collect::<Result<_>>()?;
    Ok(page::whole(&selections).into_string())
}

/// Runs named by the last part of their directory's path, or by all of it where two are the same:
/// a page that is passed on need not say where its author keeps their files.
fn read(directories: &[PathBuf]) -> Result<Vec<(String, Run)>> {
    let last = |place: &PathBuf| place.file_name().map(|name| name.to_string_lossy().into_owned());
    let names: Vec<Option<String>> = directories.iter().map(last).collect();
    let name = |index: usize| match &names[index] {
        Some(name) if names.iter().filter(|it| it.as_ref() == Some(name)).count() == 1 => {
            name.clone()
        }
        _ => directories[index].display().to_string(),
    };
    let read = |(index, place): (usize, &PathBuf)| Ok((name(index), results::read(place)?));
    directories.iter().enumerate().map(read).collect()
}

/// Runs that can be compared, together; in the order in which they were named.
fn grouped(runs: Vec<(String, Run)>) -> Vec<Vec<(String, Run)>> {
    let mut groups: Vec<Vec<(String, Run)>> = Vec::new();
    for run in runs {
        let home = groups.iter().position(|group| {
            let together: Vec<(String, Run)> = group
                .iter()
                .chain([&run])
                .map(|(name, run)| (name.clone(), outline(run)))
                .collect();
            Selection::new(&together, None).is_ok()
        });
        match home {
            Some(index) => groups[index].push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

/// A run without its samples: what can be compared is in its meta data.
fn outline(run: &Run) -> Run {
    Run { meta: run.meta.clone(), samples: Vec::new(), warnings: Vec::new() }
}
