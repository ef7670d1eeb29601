//! `quarry-lab`: experiments on allocators and policies, and recorded programs on a simulated
//! machine.

mod record;
mod simulate;
#[cfg(test)]
mod tests;

use clap::{CommandFactory, Parser, Subcommand};
use quarry_cli::exit_status::report;
use quarry_cli::library;
use quarry_cli::output::{Output, parse};
use quarry_cli::{completions, pages};
use quarry_lab::LabCommand;
use std::io::{Write, stdout};
use std::process::exit;

/// Experiments over allocators and policies.
#[derive(Parser)]
#[command(name = "quarry-lab", bin_name = "quarry lab", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Lab(LabCommand),
    Record(record::RecordArgs),
    Simulate(simulate::SimulateArgs),
    /// Takes one sample in this process; the lab starts such processes.
    #[command(name = quarry_harness::launch::SAMPLE_COMMAND, hide = true)]
    Sample(quarry_harness::launch::SampleArgs),
    /// Runs one sample of a program and watches it; the lab starts such processes.
    #[command(name = quarry_compare::SUPERVISE_COMMAND, hide = true)]
    Supervise(quarry_compare::SuperviseArgs),
    Pages(pages::PagesArgs),
}

fn main() {
    completions::answer(Cli::command);
    let out = &mut Output(stdout());
    let status = match parse::<Cli>(std::env::args_os().collect()).command {
        Command::Lab(command) => {
            let find_library = || library::find(None, None);
            report(quarry_lab::lab(command, &find_library, out))
        }
        Command::Record(args) => record::run(&args),
        Command::Simulate(args) => report(simulate::run(&args, out)),
        Command::Sample(args) => report(quarry_lab::sample(args, out)),
        Command::Supervise(args) => report(quarry_compare::supervise(&args, out)),
        Command::Pages(args) => report(pages::write(&args, Cli::command())),
    };
    let flushed = report(out.flush().map_err(anyhow::Error::from));
    exit(if status == 0 { flushed } else { status });
}
