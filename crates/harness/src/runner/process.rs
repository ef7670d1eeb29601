//! A sample process: this executable, fresh, with a chosen allocator preloaded.

use crate::results::Measurement;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

/// Name of the hidden subcommand that takes one sample: the lab starts its own executable with it.
pub const SAMPLE_COMMAND: &str = "__sample";

/// A sample that is not done by then has lost its way, and ends by SIGALRM.
pub const SAMPLE_LIMIT_SECONDS: u32 = 60;

/// Variables that would change what an allocator does; a sample starts without them.
const CLEARED: &[&str] = &[
    "LD_PRELOAD",
    "GLIBC_TUNABLES",
    "MALLOC_",
    "_RJEM_",
    "TCMALLOC_",
    "MIMALLOC_",
    "QUARRY_DISABLE",
    "QUARRY_STATS",
    "QUARRY_LIBRARY",
    "QUARRY_PEERS",
];

/// Takes one sample in a fresh process, or says why there is none.
pub fn sample(arguments: &[String], preload: Option<&Path>) -> Result<Measurement, String> {
    sample_with(arguments, preload, &[])
}

/// [`sample`] with settings of the allocator in the environment.
pub fn sample_with(
    arguments: &[String],
    preload: Option<&Path>,
    settings: &[(String, String)],
) -> Result<Measurement, String> {
    let output = start(arguments, preload, settings).map_err(|error| format!("{error:#}"))?;
    if !output.status.success() {
        return Err(end_of(&output));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("unreadable answer: {error}"))
}

fn start(
    arguments: &[String],
    preload: Option<&Path>,
    settings: &[(String, String)],
) -> Result<Output> {
    let mut command = command(arguments, preload)?;
    command.envs(settings.iter().cloned()).output().context("cannot start a sample")
}

/// A sample process that is about to be started.
pub fn command(arguments: &[String], preload: Option<&Path>) -> Result<Command> {
    let this = std::env::current_exe().context("cannot find this executable")?;
    let mut command = Command::new(this);
    command.arg(SAMPLE_COMMAND).args(arguments);
    preload_into(&mut command, preload);
    Ok(command)
}

/// Lets a program run on an allocator, without variables that would change what allocators do.
pub fn preload_into(command: &mut Command, preload: Option<&Path>) {
    for key in cleared_variables() {
        command.env_remove(key);
    }
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
}

/// Variables of this process that a sample starts without.
pub fn cleared_variables() -> Vec<OsString> {
    std::env::vars_os().map(|(key, _)| key).filter(is_cleared).collect()
}

fn is_cleared(key: &OsString) -> bool {
    let key = key.to_string_lossy();
    CLEARED.iter().any(|prefix| key.starts_with(prefix))
}

/// How a failed process ended, with the last line that it wrote.
pub fn end_of(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message");
    match (output.status.signal(), output.status.code()) {
        (Some(libc::SIGALRM), _) => format!("not done after {SAMPLE_LIMIT_SECONDS} s: {last}"),
        (Some(signal), _) => format!("ended by signal {signal}: {last}"),
        (None, code) => format!("exit status {}: {last}", code.unwrap_or(-1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_allocators_are_cleared() {
        for key in ["LD_PRELOAD", "MALLOC_CONF", "MALLOC_ARENA_MAX", "QUARRY_DISABLE"] {
            assert!(is_cleared(&key.into()), "{key}");
        }
        for key in ["PATH", "QUARRY_PCP", "LD_LIBRARY_PATH"] {
            assert!(!is_cleared(&key.into()), "{key}");
        }
    }

    #[test]
    fn failures_say_how_the_process_ended() {
        let run = |script: &str| end_of(&Command::new("sh").args(["-c", script]).output().unwrap());
        assert_eq!(run("echo one >&2; echo two >&2; exit 3"), "exit status 3: two");
        assert_eq!(run("kill -SEGV $$"), "ended by signal 11: no message");
        assert!(run("kill -ALRM $$").starts_with("not done after 60 s"));
    }
}
