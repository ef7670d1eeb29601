//! Exit statuses of the commands.

use quarry_harness::Usage;
use quarry_harness::merge::Missing;
use std::fmt;
use std::io::{self, Write};

/// Exit status if the command line is wrong and nothing has run; clap uses the same.
pub const EXIT_USAGE: i32 = 2;
const EXIT_FAILURE: i32 = 1;

/// Exit status of `quarry lab merge` if it names shards that have to be taken again.
const EXIT_MISSING: i32 = 3;

/// Exit status of `quarry`'s own failure before it starts a program, as `env` and `nohup` have it.
const EXIT_OWN_FAILURE: i32 = 125;

/// Exit status of a command that starts programs, if it fails itself before it has started one.
pub fn of_own_failure(error: &anyhow::Error) -> i32 {
    if Usage::is_cause_of(error) { EXIT_USAGE } else { EXIT_OWN_FAILURE }
}

/// Prints a message, with `?` for what a terminal would obey: a value of the environment or the
/// output of a program may be part of it. If standard error is closed or full, nothing fails.
pub fn say(message: fmt::Arguments<'_>) {
    let message = message.to_string();
    let lines: Vec<_> = message.split('\n').map(quarry_wary::plain).collect();
    let _ = writeln!(io::stderr(), "quarry: {}", lines.join("\n"));
}

/// Prints the error of a result, and returns its exit status.
pub fn report(result: anyhow::Result<()>) -> i32 {
    let is_broken_pipe = |it: &io::Error| it.kind() == io::ErrorKind::BrokenPipe;
    match result {
        Ok(()) => 0,
        // The reader has closed the pipe: `quarry lab run ... | head`.
        Err(error) if error.downcast_ref().is_some_and(is_broken_pipe) => 0,
        Err(error) => {
            say(format_args!("{error:#}"));
            match error.is::<Missing>() {
                true => EXIT_MISSING,
                false if Usage::is_cause_of(&error) => EXIT_USAGE,
                false => EXIT_FAILURE,
            }
        }
    }
}
