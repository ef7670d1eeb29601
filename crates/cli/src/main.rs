//! `quarry`: runs programs on Quarry and measures its policies.

mod compare;
mod library;
mod options;
mod program;
mod run;
mod wrapper;

use clap::{Parser, Subcommand};
use quarry_lab::LabCommand;
use std::io;
use std::process::exit;

/// The Linux kernel's memory management for one process.
#[derive(Parser)]
#[command(name = "quarry", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::RunArgs),
    Compare(compare::CompareArgs),
    /// Experiments over allocators and policies.
    #[command(subcommand)]
    Lab(LabCommand),
    /// Takes one sample in this process; the lab starts it.
    #[command(name = quarry_lab::SAMPLE_COMMAND, hide = true)]
    Sample(quarry_lab::SampleArgs),
    /// Runs one sample of a program and watches it; `compare` starts it.
    #[command(name = quarry_lab::SUPERVISE_COMMAND, hide = true)]
    Supervise(quarry_lab::programs::SuperviseArgs),
}

fn main() {
    let out = &mut io::stdout();
    let status = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Lab(command) => {
            let find_library = || library::find(None, None).map_err(anyhow::Error::from);
            report(quarry_lab::lab(command, &find_library, out))
        }
        Command::Compare(args) => compare::run(args, out),
        Command::Supervise(args) => report(quarry_lab::programs::supervise(&args, out)),
        Command::Sample(args) => report(quarry_lab::sample(args, out)),
    };
    exit(status);
}

/// Exit status of a result, whose error is printed.
fn report(result: anyhow::Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        // Whoever reads has seen enough: `quarry lab run ... | head`.
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            eprintln!("quarry: {error:#}");
            1
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
