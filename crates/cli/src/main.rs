//! `quarry`: runs programs on Quarry and measures its policies.

mod advise;
mod compare;
mod exit_status;
mod library;
mod live;
mod metrics;
mod options;
#[cfg(feature = "pages")]
mod pages;
mod program;
#[cfg(test)]
mod recipes;
mod record;
mod run;
mod simulate;
mod slabinfo;
mod top;
mod watcher;
mod wrapper;

use clap::{Parser, Subcommand};
use exit_status::report;
use library::LibraryError;
use quarry_lab::LabCommand;
use quarry_live::{buddyinfo, lockstat, vmstat, zoneinfo};
use std::io::{self, Write};
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
    Advise(advise::AdviseArgs),
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
    Record(record::RecordArgs),
    Simulate(simulate::SimulateArgs),
    /// Experiments over allocators and policies.
    #[command(subcommand)]
    Lab(LabCommand),
    /// Takes one sample in this process; the lab starts it.
    #[command(name = quarry_harness::launch::SAMPLE_COMMAND, hide = true)]
    Sample(quarry_harness::launch::SampleArgs),
    /// Runs one sample of a program and watches it; `compare` starts it.
    #[command(name = quarry_compare::SUPERVISE_COMMAND, hide = true)]
    Supervise(quarry_compare::SuperviseArgs),
    #[cfg(feature = "pages")]
    Pages(pages::PagesArgs),
    /// Waits for a program's end; `run --stats` starts it.
    #[command(name = watcher::WATCH_COMMAND, hide = true)]
    Watch(watcher::WatchArgs),
}

fn main() {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => exit(print_of_parser(&error)),
    };
    let out = &mut Output(io::stdout());
    let status = match command {
        Command::Run(args) => run::run(args),
        Command::Lab(command) => {
            let find_library = || library::find(None, None).map_err(LibraryError::into_error);
            report(quarry_lab::lab(command, &find_library, out))
        }
        Command::Compare(args) => compare::run(args, out),
        Command::Advise(args) => advise::run(args, out),
        Command::Slabinfo(args) => report(slabinfo::run(&args, out)),
        Command::Buddyinfo(target) => report(target.print(buddyinfo::text, out)),
        Command::Zoneinfo(target) => report(target.print(zoneinfo::text, out)),
        Command::Vmstat(target) => report(target.print(vmstat::text, out)),
        Command::Lockstat(target) => report(target.print(lockstat::text, out)),
        Command::Top(args) => report(top::run(&args, out)),
        Command::Metrics(args) => report(metrics::run(&args, out)),
        Command::Profile(args) => report(quarry_profile::profile(&args, out)),
        Command::Record(args) => record::run(&args),
        Command::Simulate(args) => report(simulate::run(&args, out)),
        Command::Watch(args) => report(watcher::run(&args)),
        Command::Supervise(args) => report(quarry_compare::supervise(&args, out)),
        Command::Sample(args) => report(quarry_lab::sample(args, out)),
        #[cfg(feature = "pages")]
        Command::Pages(args) => {
            report(pages::write(&args, <Cli as clap::CommandFactory>::command()))
        }
    };
    // Output that cannot be written at the end is a failure as well.
    let flushed = report(out.flush().map_err(anyhow::Error::from));
    exit(if status == 0 { flushed } else { status });
}

/// Standard output; its errors say that they are its.
struct Output(io::Stdout);

impl Output {
    fn named(error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("standard output: {error}"))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            // The caller tries again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            written => written.map_err(Self::named),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(Self::named)
    }
}

/// Prints help, the version or what is wrong with the command line; returns the exit status.
fn print_of_parser(error: &clap::Error) -> i32 {
    let printed = error.print().and_then(|()| io::stdout().flush()).map_err(Output::named);
    match error.exit_code() {
        0 => report(printed.map_err(anyhow::Error::from)),
        // The status is the same if the message could not be printed.
        wrong => wrong,
    }
}
