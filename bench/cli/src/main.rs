//! `quarry`: runs programs on Quarry, looks inside them, and compares allocators.

mod advise;
mod compare;
mod lab_command;
mod live;
mod metrics;
mod names;
mod options;
mod ps;
mod run;
mod show;
mod top;
mod watcher;
mod wrapper;

use clap::{CommandFactory, Parser, Subcommand};
use lab_command::LabArgs;
use quarry_cli::exit_status::{self, report};
use quarry_cli::output::{Output, parse};
use quarry_cli::{completions, library, pages, program};
use std::env;
use std::io::{Write, stdout};
use std::process::exit;

/// A malloc that gives memory back, and tools to look inside running programs.
///
/// `quarry run -- PROGRAM` starts a program on Quarry; `ps`, `top`, `metrics` and `profile` look
/// inside programs that run; `advise` and `compare` say which allocator suits a program best.
#[derive(Parser)]
#[command(name = "quarry", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::RunArgs),
    Ps(ps::PsArgs),
    Top(top::TopArgs),
    Metrics(metrics::MetricsArgs),
    Profile(quarry_profile::ProfileArgs),
    Show(show::ShowArgs),
    Advise(quarry_compare::AdviceRequest),
    Compare(quarry_compare::Request),
    Names(names::NamesArgs),
    /// Record each call of malloc that a program makes, with its thread, CPU and time (make lab).
    #[command(disable_help_flag = true)]
    Record(LabArgs),
    /// Replay a recorded program on a simulated machine, under several slab policies (make lab).
    #[command(disable_help_flag = true)]
    Simulate(LabArgs),
    /// Experiments on allocators and policies (make lab).
    #[command(disable_help_flag = true)]
    Lab(LabArgs),
    /// Runs one sample of a program and watches it; `compare` starts it.
    #[command(name = quarry_compare::SUPERVISE_COMMAND, hide = true)]
    Supervise(quarry_compare::SuperviseArgs),
    Pages(pages::PagesArgs),
    /// Waits for a program's end; `run --stats` starts it.
    #[command(name = watcher::WATCH_COMMAND, hide = true)]
    Watch(watcher::WatchArgs),
}

fn main() {
    lab_command::complete();
    completions::answer(Cli::command);
    let out = &mut Output(stdout());
    let words = show::with_layouts_as_commands(env::args_os());
    let status = match parse::<Cli>(words).command {
        Command::Run(args) => run::run(args),
        Command::Lab(args) => args.become_lab(None),
        Command::Record(args) => args.become_lab(Some("record")),
        Command::Simulate(args) => args.become_lab(Some("simulate")),
        Command::Compare(args) => compare::run(&args, out),
        Command::Advise(args) => advise::run(&args, out),
        Command::Ps(args) => report(ps::run(&args, out)),
        Command::Show(args) => report(show::run(&args, out)),
        Command::Top(args) => report(top::run(&args, out)),
        Command::Metrics(args) => report(metrics::run(&args, out)),
        Command::Profile(args) => report(quarry_profile::profile(&args, out)),
        Command::Names(args) => report(names::run(&args, out)),
        Command::Watch(args) => report(watcher::run(&args)),
        Command::Supervise(args) => report(quarry_compare::supervise(&args, out)),
        Command::Pages(args) => report(pages::write(&args, Cli::command())),
    };
    // Output that cannot be flushed is a failure as well.
    let flushed = report(out.flush().map_err(anyhow::Error::from));
    exit(if status == 0 { flushed } else { status });
}
