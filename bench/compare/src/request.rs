//! The request of `quarry compare`, and the ways in which a comparison ends.

use crate::parameters::CommandVariant;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The rule for the number of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Runs {
    /// This number of runs on each allocator.
    Exactly(u32),
    /// Until half the width of each interval is at most a share of the baseline.
    UntilInterval {
        /// The share.
        share: f64,
        /// Maximum number of runs.
        at_most: u32,
    },
}

impl Runs {
    /// Maximum number of runs on each allocator.
    #[must_use]
    pub fn at_most(self) -> u32 {
        match self {
            Self::Exactly(runs) => runs,
            Self::UntilInterval { at_most, .. } => at_most,
        }
    }
}

/// A request for a comparison.
#[derive(Clone, Debug)]
pub struct Request {
    /// Allocators as `NAME`, `NAME:KEY=VALUE` or `NAME=FILE`.
    pub allocators: Vec<String>,
    /// The rule for the number of runs.
    pub runs: Runs,
    /// Name of the baseline; `None`: glibc, else the first allocator.
    pub baseline: Option<String>,
    /// Figures that the program prints.
    pub metrics: Vec<String>,
    /// True if all runs must print the same output.
    pub check_output: bool,
    /// Time after which a run has failed.
    pub timeout: Duration,
    /// The file that every run reads; `None`: standard input.
    pub input: Option<PathBuf>,
    /// True if a run counts with any exit status.
    pub ignore_failure: bool,
    /// True if a program is compared even if an allocator has hardly any influence on it.
    pub force: bool,
    /// Conditions under which the comparison fails: `METRIC > +N %` or `METRIC < -N %`.
    pub fail_if: Vec<String>,
    /// True if the comparison needs every allocator to be installed.
    pub needs_all: bool,
    /// The CSV file for all figures.
    pub csv: Option<PathBuf>,
    /// The Markdown file for the tables.
    pub markdown: Option<PathBuf>,
    /// The JSON file for all samples and verdicts.
    pub json: Option<PathBuf>,
    /// The new HTML file for a page with pictures.
    pub html: Option<PathBuf>,
    /// The results directory, for `quarry lab`.
    pub out: Option<PathBuf>,
    /// Seed of the order of runs; `None`: from the clock.
    pub seed: Option<u64>,
    /// Name and arguments as the user gave them, with `{name}` in place of values.
    pub command: Vec<OsString>,
    /// The programs: one for each combination of values.
    pub works: Vec<Work>,
}

/// A program that is compared.
#[derive(Clone, Debug)]
pub struct Work {
    /// The command line with its values.
    pub variant: CommandVariant,
    /// The file to execute.
    pub file: PathBuf,
    /// The file whose code runs in the end: for a script its interpreter.
    pub interpreter: PathBuf,
}

impl Request {
    pub(super) fn program(&self) -> String {
        let name = self.command.first().map(|it| it.to_string_lossy()).unwrap_or_default();
        name.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

/// The words of a command with blanks between them.
pub(super) fn line(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|it| it.to_string_lossy()).collect();
    words.join(" ")
}

/// The way in which a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// No run failed.
    Complete,
    /// A condition of `--fail-if` is met.
    Failing,
    /// A run failed, or no allocator makes a difference; the results so far were printed.
    Incomplete,
    /// A signal ended the comparison; the results so far were printed.
    Interrupted(u32),
}
