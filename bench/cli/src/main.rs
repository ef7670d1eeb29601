//! `quarry`: runs programs on Quarry, examines them, and compares allocators.

mod advise;
mod compare;
mod lab_command;
mod live;
mod metrics;
mod names;
mod options;
mod ps;
mod run;
mod slabinfo;
mod top;
mod watcher;
mod wrapper;

use clap::{CommandFactory, Parser, Subcommand};
use lab_command::LabArgs;
use quarry_cli::exit_status::{self, report};
use quarry_cli::output::{Output, parse};
use quarry_cli::{completions, library, pages, program};
use quarry_live::{buddyinfo, lockstat, vmstat, zoneinfo};
use std::io::{Write, stdout};
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
    Compare(quarry_compare::Request),
    Advise(quarry_compare::AdviceRequest),
    Ps(ps::PsArgs),
    Slabinfo(slabinfo::SlabinfoArgs),
    /// Free blocks of a running process, as /proc/buddyinfo has them.
    Buddyinfo(live::Target),
    /// Zones of a running process and their page lists, as /proc/zoneinfo has them.
    Zoneinfo(live::Target),
    /// Events of a running process, as /proc/vmstat has them.
    Vmstat(live::Target),
    /// Locks of a running process, as /proc/lock_stat has them.
    Lockstat(live::Target),
    Top(top::TopArgs),
    Metrics(metrics::MetricsArgs),
    Profile(quarry_profile::ProfileArgs),
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
    let status = match parse::<Cli>().command {
        Command::Run(args) => run::run(args),
        Command::Lab(args) => args.become_lab(None),
        Command::Record(args) => args.become_lab(Some("record")),
        Command::Simulate(args) => args.become_lab(Some("simulate")),
        Command::Compare(args) => compare::run(&args, out),
        Command::Advise(args) => advise::run(&args, out),
        Command::Ps(args) => report(ps::run(&args, out)),
        Command::Slabinfo(args) => report(slabinfo::run(&args, out)),
        Command::Buddyinfo(target) => report(target.print(buddyinfo::text, out)),
        Command::Zoneinfo(target) => report(target.print(zoneinfo::text, out)),
        Command::Vmstat(target) => report(target.print(vmstat::text, out)),
        Command::Lockstat(target) => report(target.print(lockstat::text, out)),
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
