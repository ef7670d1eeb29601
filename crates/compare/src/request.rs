//! The request of `quarry compare`, and how a comparison ends.

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
    /// The file that everything is written to as JSON.
    pub json: Option<PathBuf>,
    /// The new file that it is written to as a page with pictures.
    pub html: Option<PathBuf>,
    /// Results directory for `quarry lab`.
    pub out: Option<PathBuf>,
    /// Seed of the order; `None`: from the clock.
    pub seed: Option<u64>,
    /// The file that is executed.
    pub file: PathBuf,
    /// The file whose code runs in the end: an interpreter, where the program is a script.
    pub interpreter: PathBuf,
    /// Name and arguments.
    pub command: Vec<OsString>,
}

/// The way in which a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every run counts.
    Complete,
    /// Something failed, or no allocator makes a difference; what there is has been printed.
    Incomplete,
    /// A signal ended it; what there was has been printed.
    Interrupted(u32),
}
