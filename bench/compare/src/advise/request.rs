//! The options of `quarry advise`, and the ways in which the search ends.

use crate::parameters::CommandVariant;
use crate::request::CommandLine;
use quarry_harness::options::duration;
use std::ffi::OsString;
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

/// Say which allocator a program should have, in less than five minutes.
///
/// Runs CMD on every installed allocator, and on those of Quarry's slab and page policies that suit
/// the program and the machine. Drops most of them, and tests the best one by further runs,
/// interleaved with glibc. The answer is the first line: "keep glibc", or "use X" with the gain.
/// The evidence follows, and then the lines for systemd, Docker and Kubernetes. If no allocator can
/// change anything, a run is too short or too long, or these runs do not decide, the first line
/// gives the reason.
///
/// Exit status 0: there is an answer; 1: the runs did not decide, or something failed; 2: a wrong
/// option, and nothing ran; 126 and 127: CMD cannot be executed or is not found; 130: interrupted.
#[derive(clap::Args)]
pub struct AdviceRequest {
    /// Candidates, spelled as for `quarry compare` [default: all that are installed, and the
    /// policies that suit the program and the machine].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) allocators: Vec<String>,
    /// The gain that you want.
    #[arg(long, value_enum, default_value = "either")]
    pub(super) goal: Goal,
    /// Time for the whole search.
    #[arg(long, value_name = "DURATION", default_value = "4m30s", value_parser = duration)]
    pub(super) budget: Duration,
    /// Judge a number that the program prints instead of its time: `higher:REGEX` or `lower:REGEX`
    /// with one capture group, as for `quarry compare`, or the name of a measured figure (cpu,
    /// wall, p99, ..) [default: cpu where no thread waits, else wall].
    #[arg(long, value_name = "REGEX|NAME")]
    pub(super) metric: Vec<String>,
    /// A file that each run writes, with a number in each line: its quantiles are figures, and p99
    /// stands for the time.
    #[arg(long, value_name = "FILE")]
    pub(super) latencies: Option<PathBuf>,
    /// How long processes that outlive the program must be idle before their memory counts as idle
    /// [default: 2s].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) idle_for: Option<Duration>,
    /// A run whose standard output differs from that of the first one has failed.
    #[arg(long)]
    pub(super) check_output: bool,
    /// Count runs whatever their exit status is.
    #[arg(short = 'i', long)]
    pub(super) ignore_failure: bool,
    /// A shell command that runs before each run. Its time counts only for --budget.
    #[arg(long, value_name = "CMD")]
    pub(super) prepare: Option<OsString>,
    /// File that every run reads, from its beginning [default: standard input].
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,
    /// Advise for aged heaps, as `quarry compare --aged` makes them. The first half of the time
    /// goes into advice for fresh heaps, which stands beside.
    #[arg(long)]
    pub(super) aged: bool,
    /// Measure even if an allocator has hardly any influence on the program.
    #[arg(long)]
    pub(super) force: bool,
    /// Write the answer and its evidence to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the answer, with pictures and every sample of the test, to a new file, as a page.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Seed of the order of runs [default: from the clock].
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    #[command(flatten)]
    pub(super) program: CommandLine,
}

impl AdviceRequest {
    /// The command line.
    #[must_use]
    pub fn variant(&self) -> CommandVariant {
        let (command, prepare) = (self.program.command.clone(), self.prepare.clone());
        CommandVariant { parameters: Vec::new(), command, prepare }
    }
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
