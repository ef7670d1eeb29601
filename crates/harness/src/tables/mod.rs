//! `quarry lab compare`: tables of runs that were taken before, in the styles that people know.
//!
//! ```text
//! selection      which variants and rows several runs have in common
//! modern         medians, intervals, verdicts
//! mmtests        layout and rows of that tool in 2017
//! tcp_rr         the table of document 002
//! will_it_scale  the table of document 004
//! ```

mod mmtests;
pub mod modern;
pub mod published;
pub mod selection;
mod tcp_rr;
mod will_it_scale;

#[cfg(test)]
mod golden;

use crate::results::{self, Run};
use crate::targets::TargetsOf;
use anyhow::Result;
use clap::{Args, ValueEnum};
use selection::Selection;
use std::io::Write;
use std::path::PathBuf;

/// Print tables of results directories.
///
/// Variants of several directories stand side by side; only those of the baseline's own run are
/// paired with it, round by round. Rows are the workloads that all have in common.
#[derive(Args)]
pub struct CompareArgs {
    /// Directories that `quarry lab run .. --out DIR` has made.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// The variant that the others are compared with [default: that of the first directory].
    #[arg(long, value_name = "V")]
    baseline: Option<String>,
    /// How the table looks.
    #[arg(long, value_enum, default_value = "modern")]
    style: Style,
}

/// How tables look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Style {
    /// As mmtests printed them in 2017: positive percentages are better. A/A copies are left out.
    Mmtests,
    /// As in document 002: a row per number of tasks, medians, and the difference in percent.
    TcpRr,
    /// As in document 004: a block per number of tasks, means, deviations and speed-ups.
    WillItScale,
    /// Medians, 95 % intervals, verdicts.
    Modern,
}

impl CompareArgs {
    /// Reads the directories and prints their tables to `out`.
    pub fn run(self, targets: TargetsOf<'_>, out: &mut dyn Write) -> Result<()> {
        let runs = self
            .directories
            .iter()
            .map(|place| Ok((place.display().to_string(), results::read(place)?)))
            .collect::<Result<Vec<(String, Run)>>>()?;
        let selection = Selection::new(&runs, self.baseline.as_deref())?;
        for warning in selection.warnings() {
            writeln!(out, "warning: {warning}")?;
        }
        let text = match self.style {
            Style::Mmtests => mmtests::table(&selection).to_string(),
            Style::TcpRr => tcp_rr::table(&selection),
            Style::WillItScale => will_it_scale::table(&selection),
            Style::Modern => modern::tables(&selection, targets),
        };
        writeln!(out, "{text}")?;
        Ok(())
    }
}
