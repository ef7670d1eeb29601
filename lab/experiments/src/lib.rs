//! The experiments of `quarry lab`: their variants, their workloads and their tables.
//!
//! ```text
//! experiments    one file each
//! patterns       workloads on malloc, run inside a sample
//! predict        the documents' figures beside those of a simulated machine
//! seeds          the same from several seeds, run lengths and sets of constants
//! simulated      cells of a simulated machine, each in a process of its own
//! real_programs  well-known programs, each with a fixed amount of work
//! containment    recorded jobs in groups of one machine
//! driven         programs that a script drives
//! ready_program  a program of either kind with its work, ready to be run on each allocator
//! deviations     standard deviations beside each other, judged by an F-test
//! styles         the documents' own tables
//! tables         reads the files of `data`
//! witness        workloads as system calls, and what the running kernel counts of them
//! ```
//!
//! Four rules hold for every experiment. Variants are interleaved: in each round every variant runs
//! a workload once, in a shuffled order whose seed is recorded, so that ratios compare samples that
//! are close in time. A sample is a fresh process. Each sample proves which allocator's file served
//! it. A copy of the baseline runs as another variant, to show the machine's noise in every result.

mod containment;
mod deviations;
mod driven;
mod experiments;
mod patterns;
mod predict;
mod ready_program;
mod real_programs;
mod seeds;
pub mod simulated;
mod styles;
mod tables;
mod witness;

use anyhow::Result;
use clap::Subcommand;
use quarry_compare::FindLibrary;
use quarry_harness::doctor::DoctorArgs;
use quarry_harness::launch::SampleArgs;
use quarry_harness::merge::MergeArgs;
use quarry_harness::report::ReportArgs;
use quarry_harness::tables::{CompareArgs, TargetsArgs};
use std::io::Write;

/// `quarry lab ...`
#[derive(Subcommand)]
pub enum LabCommand {
    /// List the experiments.
    List,
    /// Run an experiment.
    #[command(subcommand_value_name = "experiment")]
    Run {
        /// The experiment, with its options.
        #[command(subcommand)]
        experiment: experiments::Chosen,
    },
    /// Join the shards of a run.
    Merge(MergeArgs),
    /// Predict the measurements of a document, on its machine in simulated time.
    Predict(predict::PredictArgs),
    /// Print the tables of results directories.
    Compare(CompareArgs),
    /// Print, for each processor, which targets were reached.
    Targets(TargetsArgs),
    /// Write results directories as one page with pictures and tables.
    Report(ReportArgs),
    /// Say what makes timings untrustworthy on this machine, and how to change it.
    Doctor(DoctorArgs),
}

/// Carries out `quarry lab ...` and prints to `out`.
///
/// # Errors
/// If nothing could be measured, or some samples failed (after printing the other results).
pub fn lab(command: LabCommand, find_library: FindLibrary<'_>, out: &mut dyn Write) -> Result<()> {
    match command {
        LabCommand::List => Ok(out.write_all(experiments::list().as_bytes())?),
        LabCommand::Run { experiment } => experiment.run(find_library, out),
        LabCommand::Merge(merge) => merge.run(out),
        LabCommand::Predict(predict) => predict.run(out),
        LabCommand::Compare(compare) => compare.run(&styles::STYLES, out),
        LabCommand::Targets(targets) => targets.run(out),
        LabCommand::Report(report) => report.run(out),
        LabCommand::Doctor(doctor) => {
            doctor.run(find_library().ok().as_deref(), [experiments::kernel_counts()], out)
        }
    }
}

/// Takes one sample in this process and prints it to `out` as one line of JSON.
///
/// # Errors
/// If the sample could not be taken.
pub fn sample(args: SampleArgs, out: &mut dyn Write) -> Result<()> {
    let measurement = args.measure(experiments::works())?;
    Ok(writeln!(out, "{}", serde_json::to_string(&measurement)?)?)
}
