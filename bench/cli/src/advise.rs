//! `quarry advise`: says which allocator a program should have.

use crate::compare::{duration, with_built_in, work};
use crate::exit_status;
use crate::program::CommandLine;
use quarry_compare::{AdviceEnding, AdviceRequest, CommandVariant, Goal, advise};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

const EXIT_UNDECIDED: i32 = 1;

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
pub(crate) struct AdviseArgs {
    /// Candidates, spelled as for `quarry compare` [default: all that are installed, and the
    /// policies that suit the program and the machine].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    allocators: Vec<String>,
    /// The gain that you want.
    #[arg(long, value_enum, default_value = "either")]
    goal: Goal,
    /// Time for the whole search.
    #[arg(long, value_name = "DURATION", default_value = "4m30s", value_parser = duration)]
    budget: Duration,
    /// Judge a number that the program prints instead of its time: `higher:REGEX` or `lower:REGEX`
    /// with one capture group, as for `quarry compare`.
    #[arg(long, value_name = "REGEX")]
    metric: Vec<String>,
    /// A run whose standard output differs from that of the first one has failed.
    #[arg(long)]
    check_output: bool,
    /// Count runs whatever their exit status is.
    #[arg(short = 'i', long)]
    ignore_failure: bool,
    /// A shell command that runs before each run. Its time counts only for --budget.
    #[arg(long, value_name = "CMD")]
    prepare: Option<OsString>,
    /// File that every run reads, from its beginning [default: standard input].
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Measure even if an allocator has hardly any influence on the program.
    #[arg(long)]
    force: bool,
    /// Write the answer and its evidence to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the answer, with pictures and every sample of the test, to a new file, as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Seed of the order of runs [default: from the clock].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    program: CommandLine,
}

pub(crate) fn run(args: AdviseArgs, out: &mut dyn Write) -> i32 {
    let (command, prepare) = (args.program.command, args.prepare);
    let work = match work(CommandVariant { parameters: Vec::new(), command, prepare }) {
        Ok(work) => work,
        Err(status) => return status,
    };
    let request = AdviceRequest {
        allocators: args.allocators,
        goal: args.goal,
        budget: args.budget,
        metrics: args.metric,
        check_output: args.check_output,
        ignore_failure: args.ignore_failure,
        force: args.force,
        input: args.input,
        json: args.json,
        html: args.html,
        seed: args.seed,
        work,
    };
    match with_built_in(|built_in| advise(&request, built_in, out)) {
        Ok(AdviceEnding::Answered) => 0,
        Ok(AdviceEnding::Undecided) => EXIT_UNDECIDED,
        // Shells report this status for a death by a signal.
        Ok(AdviceEnding::Interrupted(signal)) => 128 + signal as i32,
        Err(error) => exit_status::report(Err(error)),
    }
}
