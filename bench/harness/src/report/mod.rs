//! `quarry lab report`: writes runs as one self-contained page, for phones and screens.
//!
//! ```text
//! page      the whole file: head, theme, sections
//! section   the runs of one experiment
//! source    the origin of these runs: command, input, date; their verdicts as Markdown
//! verdicts  matrices of verdicts
//! forest    intervals
//! boxes     box plots with every sample
//! curves    scaling over the number of tasks
//! memory    memory over time
//! scatter   speed against memory
//! counters  counts per operation
//! card      a picture with its caption and its data
//! grid      a table
//! lane      the text above a variant's part of a picture
//! axes, scale, palette  what pictures share
//! ```
//!
//! Every ratio and verdict comes from [`crate::judge`], and every table from [`crate::tables`]. The
//! same runs give the same bytes. A new picture is a file here, and a call in `section`.

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

pub use page::sheet;

use crate::destination::{Destination, Present};
use crate::judge::Selection;
use crate::results::{self, Run};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// Write results directories as one page with pictures and tables.
///
/// The page is a single file that needs no network, for light and dark screens, phones and paper.
/// Runs of the same experiment are shown side by side, as in `quarry lab compare`.
#[derive(Args)]
pub struct ReportArgs {
    /// Directories that `quarry lab run .. --out DIR` has made.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// The file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

impl ReportArgs {
    /// Reads the directories and writes the page; prints its path to `out`.
    pub fn run(self, out: &mut dyn Write) -> Result<()> {
        let present = match self.force {
            true => Present::Replaced,
            false => Present::Refused("it is replaced only with --force"),
        };
        let place = Destination::open("--output", &self.output, present)?;
        place.write(page(read(&self.directories)?, None)?.as_bytes())?;
        Ok(writeln!(out, "{}", self.output.display())?)
    }
}

/// Makes the page of runs, each with its name. An `answer` stands on top in place of the verdicts.
///
/// # Errors
/// If a run has nothing to compare.
pub fn page(runs: Vec<(String, Run)>, answer: Option<&str>) -> Result<String> {
    let groups = grouped(runs);
    let mut selections: Vec<Selection<'_>> =
        groups.iter().map(|runs| Selection::new(runs, None)).collect::<Result<_>>()?;
    selections.iter_mut().for_each(|it| it.answer = answer);
    Ok(page::whole(&selections).into_string())
}

/// Reads runs. A run's name is the last part of its path, because a shared page need not show the
/// author's folders. It is the whole path if another run has the same last part.
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

/// Groups runs that can be compared, in the order of their names on the command line.
fn grouped(runs: Vec<(String, Run)>) -> Vec<Vec<(String, Run)>> {
    let mut groups: Vec<Vec<(String, Run)>> = Vec::new();
    for run in runs {
        let home = groups.iter().position(|group| {
            let together = group.iter().chain([&run]).map(|(name, run)| (name.as_str(), run));
            Selection::beside(together.collect(), None).is_ok()
        });
        match home {
            Some(index) => groups[index].push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}
