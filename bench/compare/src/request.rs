//! The request of `quarry compare`, and how a comparison ends.

use crate::parameters::CommandVariant;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The rule by which there are enough runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Runs {
    /// This number of runs of each.
    Exactly(u32),
    /// Until the interval of each is no wider than this share of it to either side.
    UntilInterval {
        /// The share.
        share: f64,
        /// The end in any case.
        at_most: u32,
    },
}

impl Runs {
    /// The end in any case.
    #[must_use]
    pub fn at_most(self) -> u32 {
        match self {
            Self::Exactly(runs) => runs,
            Self::UntilInterval { at_most, .. } => at_most,
        }
    }
}

/// A comparison that is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Allocators as `NAME`, `NAME:KEY=VALUE` or `NAME=FILE`.
    pub allocators: Vec<String>,
    /// The rule by which there are enough runs.
    pub runs: Runs,
    /// The one that the others are compared with; `None`: glibc, else the first.
    pub baseline: Option<String>,
    /// Figures that the program prints.
    pub metrics: Vec<String>,
    /// True if all runs must print the same.
    pub check_output: bool,
    /// Time after which a run has failed.
    pub timeout: Duration,
    /// The file that every run reads; `None`: standard input.
    pub input: Option<PathBuf>,
    /// True if a run counts whatever its exit status is.
    pub ignore_failure: bool,
    /// True if a program is compared on which an allocator has hardly any influence.
    pub force: bool,
    /// Conditions under which the comparison fails: `METRIC > +N %`.
    pub fail_if: Vec<String>,
    /// True if nothing is compared where one of the allocators is absent.
    pub needs_all: bool,
    /// The file that all figures are written to as CSV.
    pub csv: Option<PathBuf>,
    /// The file that the tables are written to as Markdown.
    pub markdown: Option<PathBuf>,
    /// The file that everything is written to as JSON.
    pub json: Option<PathBuf>,
    /// The new file that it is written to as a page with pictures.
    pub html: Option<PathBuf>,
    /// Results directory for `quarry lab`.
    pub out: Option<PathBuf>,
    /// Seed of the order; `None`: from the clock.
    pub seed: Option<u64>,
    /// Name and arguments as they were given, without values for `{name}`.
    pub command: Vec<OsString>,
    /// The programs: one, or one for each combination of values.
    pub works: Vec<Work>,
}

/// A program that is compared.
#[derive(Clone, Debug)]
pub struct Work {
    /// The command and what makes it differ from the others.
    pub variant: CommandVariant,
    /// The file that is executed.
    pub file: PathBuf,
    /// The file whose code runs in the end: an interpreter, where the program is a script.
    pub interpreter: PathBuf,
}

impl Request {
    /// The program's name without its folders.
    pub(super) fn program(&self) -> String {
        let name = self.command.first().map(|it| it.to_string_lossy()).unwrap_or_default();
        name.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// The command as one line.
    pub(super) fn line(&self) -> String {
        let words: Vec<_> = self.command.iter().map(|it| it.to_string_lossy()).collect();
        words.join(" ")
    }
}

/// The way in which a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every run counts.
    Complete,
    /// A condition of `--fail-if` is met.
    Failing,
    /// Something failed, or no allocator makes a difference; what there is has been printed.
    Incomplete,
    /// A signal ended it; what there was has been printed.
    Interrupted(u32),
}
