//! Experiments over allocators and memory-management policies.
//!
//! ```text
//! experiments  one file each: what is varied, over which workloads, what is printed
//! patterns     workloads on malloc, run inside a sample
//! replay       workloads of the documents, on stacks with chosen policies
//! allocators   who can serve a sample, where it is, and the proof that it did
//! contenders   allocators with their settings, as the variants of a run
//! options      what every experiment can be told
//! blocks       in which order samples are taken: randomised complete blocks
//! runner       conducts a run; one sample = one fresh process
//! results      every raw sample of a run in a directory, and what is to know of it
//! statistics   medians, paired ratios, bootstrap intervals
//! compare      tables of runs that were taken before
//! report       runs as one page with pictures
//! doctor       what makes timings untrustworthy here
//! comparison   from a run to tables
//! destination  a file that is opened first and written last
//! table        how numbers are printed
//! usage        what is wrong with how something was asked for
//! watch        samples whose memory their parent reads while they run
//! picture      lines over time, as SVG
//! programs     samples of any program; `quarry compare`: which allocator is best for one program
//! real_programs  programs that everybody knows, each with a fixed amount of work
//! driven       programs that a script drives
//! interpose    whether a preloaded library would serve a program, and if not, why not
//! inside       sanitizers and allocators that a program carries inside
//! ```
//!
//! Four rules hold for every experiment. Variants are interleaved: within a block each runs once,
//! in a shuffled order whose seed is recorded, so that ratios are taken between neighbours in
//! time. A sample is a fresh process. A sample proves what served it. A copy of the baseline runs
//! as one more variant, so that the noise of the machine stands beside every result.

mod affinity;
mod allocators;
mod blocks;
mod compare;
mod comparison;
mod contenders;
mod destination;
mod doctor;
mod driven;
mod environment;
mod experiments;
mod inside;
pub mod interpose;
mod nearest;
mod options;
mod patterns;
mod picture;
mod place;
pub mod programs;
mod real_programs;
mod replay;
mod report;
mod results;
mod runner;
mod statistics;
mod table;
mod usage;
mod watch;

pub use usage::Usage;

use anyhow::Result;
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::PathBuf;

/// Name of the hidden subcommand that takes one sample; the lab starts its own executable with it.
pub const SAMPLE_COMMAND: &str = "__sample";

/// Name of the hidden subcommand that runs one sample of a program and watches it.
pub const SUPERVISE_COMMAND: &str = "__supervise";

/// `quarry lab ...`
#[derive(Subcommand)]
pub enum LabCommand {
    /// List the experiments.
    List,
    /// Run an experiment.
    Run {
        /// Which one, with its options.
        #[command(subcommand)]
        experiment: experiments::Experiment,
    },
    /// Print the tables of results directories.
    Compare(compare::CompareArgs),
    /// Write results directories as one page with pictures and tables.
    Report(report::ReportArgs),
    /// Say what makes timings untrustworthy on this machine, and what mends it.
    Doctor(doctor::DoctorArgs),
}

/// What a sample is to measure.
#[derive(Args)]
pub struct SampleArgs {
    #[command(subcommand)]
    kind: runner::SampleKind,
}

/// Finds `libquarry.so`; asked only by experiments that need it.
pub type FindLibrary<'a> = &'a dyn Fn() -> Result<PathBuf>;

/// Carries out `quarry lab ...` and prints to `out`.
///
/// # Errors
/// Where nothing could be measured, or some samples failed (after what was measured is printed).
pub fn lab(command: LabCommand, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
    match command {
        LabCommand::List => Ok(out.write_all(experiments::list().as_bytes())?),
        LabCommand::Run { experiment } => experiment.run(find_library, out),
        LabCommand::Compare(compare) => compare.run(out),
        LabCommand::Report(report) => report.run(out),
        LabCommand::Doctor(doctor) => doctor.run(find_library, out),
    }
}

/// Takes one sample in this process and prints it to `out` as one line of JSON.
///
/// # Errors
/// Where the sample could not be taken.
pub fn sample(args: SampleArgs, out: &mut dyn Write) -> Result<()> {
    let measurement = args.kind.measure()?;
    Ok(writeln!(out, "{}", serde_json::to_string(&measurement)?)?)
}
