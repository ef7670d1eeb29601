//! Shell completions. A shell calls this command itself to complete a line, because the command
//! knows the processes on Quarry, the slab policies and the library's options.

use crate::policies;
use clap::{Arg, Command};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use quarry_live::{Choice, Found};
use quarry_mm::heap::options::{OptionHelp, all_options};

/// The variable by which a shell asks for completions; its value is the name of the shell.
pub const VARIABLE: &str = "COMPLETE";

/// Answers a shell that asks for completions, and ends the process; otherwise does nothing.
pub fn answer(command: fn() -> Command) {
    CompleteEnv::with_factory(|| with_values(command())).var(VARIABLE).complete();
}

/// Adds to the arguments of all subcommands the values that only this machine or build knows.
fn with_values(command: Command) -> Command {
    command.mut_args(with_value).mut_subcommands(with_values)
}

fn with_value(arg: Arg) -> Arg {
    let values = match arg.get_id().as_str() {
        "pid" => pids,
        "name" => names,
        "slab" | "policies" => policies,
        "set" => settings,
        _ => return arg,
    };
    arg.add(ArgValueCandidates::new(values))
}

fn found() -> Vec<Found> {
    Choice::default().find().map_or_else(|_| Vec::new(), |(found, _)| found)
}

fn pids() -> Vec<CompletionCandidate> {
    let one = |it: Found| {
        let who = it.process.who();
        CompletionCandidate::new(who.pid.to_string()).help(Some(who.name.to_string().into()))
    };
    found().into_iter().map(one).collect()
}

fn names() -> Vec<CompletionCandidate> {
    found().into_iter().map(|it| it.process.who().name.as_str().into()).collect()
}

fn policies() -> Vec<CompletionCandidate> {
    policies::names().map(CompletionCandidate::new).collect()
}

fn settings() -> Vec<CompletionCandidate> {
    let one = |option: OptionHelp| {
        let start = CompletionCandidate::new(format!("{}=", option.name));
        start.help(Some(option.meaning.into()))
    };
    all_options().map(one).collect()
}
