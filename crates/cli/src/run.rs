//! `quarry run`: one program on Quarry.

use crate::library;
use crate::options::{self, Setting};
use crate::program::{self, CommandLine};
use anyhow::Context;
use quarry_lab::interpose;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Exit status of a failure of `quarry` itself, as `env`, `nohup` and `timeout` have it.
const EXIT_OWN_FAILURE: i32 = 125;

/// Run a program with its memory served by Quarry.
///
/// The program keeps its standard streams, its process id and its exit status. Where it cannot be
/// served (static, set-user-ID, Go, ...) one line says so and it runs all the same. Exit status
/// 127: command not found; 126: not executable; 125: Quarry's library is not found.
#[derive(clap::Args)]
#[command(after_help = options::help())]
pub(crate) struct RunArgs {
    /// Print statistics when the program ends, to stderr or to FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
        default_missing_value = "1")]
    stats: Option<String>,
    /// Set an option of the library; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Slab policy, for short `--set SLAB=NAME`.
    #[arg(long, value_name = "NAME")]
    slab: Option<String>,
    #[command(flatten)]
    program: CommandLine,
}

/// Runs the program in place of this process; returns only where that failed, with an exit status.
pub(crate) fn run(args: RunArgs) -> i32 {
    match prepare_and_exec(&args) {
        Ok(status) => status,
        Err(error) => {
            say(format_args!("{error:#}"));
            EXIT_OWN_FAILURE
        }
    }
}

fn say(message: fmt::Arguments<'_>) {
    eprintln!("quarry run: {message}");
}

fn prepare_and_exec(args: &RunArgs) -> anyhow::Result<i32> {
    let settings = settings(args)?;
    let last = |wanted: &str| {
        let setting = settings.iter().rev().find(|(key, _)| *key == wanted);
        setting.map(|(_, value)| value.as_str())
    };
    let library = library::find(last("SLAB"), last("LIBRARY").map(OsString::from))?;

    let path = env::var_os("PATH");
    let name = &args.program.command[0];
    let file = match program::locate(name, path.as_deref()) {
        Ok(file) => file,
        Err(reason) => {
            say(format_args!("{}: {}", name.display(), reason.message()));
            return Ok(reason.exit_status());
        }
    };
    warn_where_not_served(name, &file, path.as_deref(), &library);

    let mut command = Command::new(&file);
    command.arg0(name).args(&args.program.command[1..]);
    command.env("LD_PRELOAD", library::preload_value(&library, env::var_os("LD_PRELOAD")));
    for (key, value) in settings {
        command.env(format!("QUARRY_{key}"), value);
    }
    let error = command.exec();
    say(format_args!("{}: {error}", name.display()));
    let missing = error.kind() == io::ErrorKind::NotFound;
    let reason =
        if missing { program::CannotRun::NotFound } else { program::CannotRun::NotExecutable };
    Ok(reason.exit_status())
}

/// The options that are in order; one line for each that is not.
fn settings(args: &RunArgs) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut assignments = args.set.clone();
    if let Some(slab) = &args.slab {
        assignments.push(format!("SLAB={slab}"));
    }
    let mut settings = Vec::new();
    for assignment in &assignments {
        match Setting::parse(assignment) {
            Ok(setting) => settings.push((setting.key, setting.value)),
            Err(error) => say(format_args!("{error}; ignored")),
        }
    }
    if let Some(target) = &args.stats {
        settings.push(("STATS", target.clone()));
    }
    // The program may change its folder before it ends.
    for (key, value) in &mut settings {
        if *key == "STATS" && !matches!(value.as_str(), "" | "0" | "1") {
            let absolute =
                std::path::absolute(&*value).with_context(|| format!("--stats={value}"))?;
            *value = absolute.to_str().map(str::to_owned).context("--stats: not UTF-8")?;
        }
    }
    Ok(settings)
}

fn warn_where_not_served(name: &OsStr, file: &Path, path: Option<&OsStr>, library: &Path) {
    let interpreter = program::interpreter_of(file, path).unwrap_or_else(|_| file.to_owned());
    let Some(obstacle) = interpose::obstacle(&interpreter, library) else { return };
    let outcome = if obstacle.is_partial() { "" } else { "; it runs without Quarry" };
    if interpreter == file {
        say(format_args!("{} {obstacle}{outcome}", name.display()));
    } else {
        let interpreter = interpreter.display();
        say(format_args!("{}: its interpreter {interpreter} {obstacle}{outcome}", name.display()));
    }
}
