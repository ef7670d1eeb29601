//! With which status the command ends.

use quarry_harness::Usage;
use quarry_harness::merge::Missing;
use std::fmt;
use std::io::{self, Write};

/// Exit status where something is wrong with how the command was called; nothing has run. The same
/// as that of the parser of the command line.
pub const EXIT_USAGE: i32 = 2;
/// Exit status where something went wrong when it ran.
const EXIT_FAILURE: i32 = 1;

/// Exit status of `quarry lab merge` where shards are missing or were not finished: those that it
/// names can be taken again.
const EXIT_MISSING: i32 = 3;

/// Exit status of a failure of `quarry` itself where it was to start a program, as `env`, `nohup`
/// and `timeout` have it.
const EXIT_OWN_FAILURE: i32 = 125;

/// Exit status of a command that starts a program, where the failure is its own.
pub fn of_own_failure(error: &anyhow::Error) -> i32 {
    if Usage::is_cause_of(error) { EXIT_USAGE } else { EXIT_OWN_FAILURE }
}

/// Says something beside what the program prints that `quarry VERB` starts. With standard error
/// closed or full the program runs all the same.
pub fn say(verb: &str, message: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "quarry {verb}: {message}");
}

/// Exit status of a result, whose error is printed.
pub fn report(result: anyhow::Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        // The reader has seen enough: `quarry lab run ... | head`.
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "quarry: {error:#}");
            exit_status_of(&error)
        }
    }
}

fn exit_status_of(error: &anyhow::Error) -> i32 {
    match error.is::<Missing>() {
        true => EXIT_MISSING,
        false if Usage::is_cause_of(error) => EXIT_USAGE,
        false => EXIT_FAILURE,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
