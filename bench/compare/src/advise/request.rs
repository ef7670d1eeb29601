//! The request of `quarry advise`, and the ways in which the search ends.

use crate::request::Work;
use std::path::PathBuf;
use std::time::Duration;

/// The gain that the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Goal {
    /// Time or memory, without a loss in the other.
    #[default]
    Either,
    /// Time, whatever it costs in memory.
    Time,
    /// Memory, whatever it costs in time.
    Memory,
}

/// A request for advice.
#[derive(Clone, Debug)]
pub struct AdviceRequest {
    /// Names of candidates; without names the facts suggest candidates.
    pub allocators: Vec<String>,
    /// The gain that the user wants.
    pub goal: Goal,
    /// Time for the whole search.
    pub budget: Duration,
    /// Figures that the program prints; the first one is judged instead of its time.
    pub metrics: Vec<String>,
    /// True if all runs must print the same.
    pub check_output: bool,
    /// True if a run counts whatever its exit status is.
    pub ignore_failure: bool,
    /// True if the program is examined even if an allocator has hardly any influence on it.
    pub force: bool,
    /// The file that every run reads; `None`: standard input.
    pub input: Option<PathBuf>,
    /// The file that the answer and its evidence are written to as JSON.
    pub json: Option<PathBuf>,
    /// The new file that the answer and the test are written to as a page.
    pub html: Option<PathBuf>,
    /// Seed of the order of runs; `None`: from the clock.
    pub seed: Option<u64>,
    /// The program.
    pub work: Work,
}

/// The way in which the search for an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdviceEnding {
    /// There is an answer.
    Answered,
    /// The runs did not decide, or something failed.
    Undecided,
    /// A signal ended the search.
    Interrupted(u32),
}
