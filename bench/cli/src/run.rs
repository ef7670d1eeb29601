//! `quarry run`: runs a program on Quarry.

use crate::exit_status::{of_own_failure, say};
use crate::library;
use crate::names::name_callers_of;
use crate::options::{self, Setting};
use crate::program::{self, CannotRun, CommandLine};
use crate::{watcher, wrapper};
use anyhow::{Context, bail};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use quarry_compare::interpose;
use quarry_harness::Usage;
use quarry_harness::launch::preload_value;
use quarry_mm::heap::options::asks_for_records;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

/// Tells the library the number of this process, which becomes the program. If the library is
/// loaded into that process but does not serve it, the library prints a line.
const PID_VARIABLE: &str = "QUARRYRUN_PID";

/// Run a program with its memory served by Quarry.
///
/// The program keeps its standard streams, its process id and its exit status. Under QUARRY_DEBUG
/// and QUARRY_GUARD its standard error passes through `quarry names`, which may print the end of it
/// about a second after the program's end. If Quarry cannot serve it (static, set-user-ID, Go, a
/// sanitizer, ...), a line reports that, and the program still runs.
/// Exit status 127: command not found, or its interpreter; 126: not executable; 125: Quarry's
/// library is not found; 2: a wrong option, and the program does not run.
#[derive(clap::Args)]
#[command(after_help = options::help())]
pub(crate) struct RunArgs {
    /// Print statistics when the program ends, to stderr or to FILE.
    ///
    /// If a signal or _exit ends the program, or the program had children, the statistics are
    /// printed after its end, shortly after its parent was notified.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
        default_missing_value = "1")]
    stats: Option<String>,
    /// Set an option of the library; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Slab policy; short for `--set SLAB=NAME`.
    #[arg(long, value_name = "NAME")]
    slab: Option<String>,
    #[command(flatten)]
    program: CommandLine,
}

/// Executes the program in place of this process; returns an exit status if that fails.
pub(crate) fn run(args: RunArgs) -> i32 {
    prepare_and_exec(&args).unwrap_or_else(|error| {
        say(format_args!("{error:#}"));
        of_own_failure(&error)
    })
}

fn prepare_and_exec(args: &RunArgs) -> anyhow::Result<i32> {
    let settings = settings(args)?;
    let last = |wanted: &str| {
        let setting = settings.iter().rev().find(|(key, _)| *key == wanted);
        setting.map(|(_, value)| value.as_str())
    };
    let slab = match last("SLAB") {
        Some(slab) => Some(slab.to_owned()),
        None => slab_of_environment()?,
    };
    let of_environment = variables();
    let inherited = of_environment.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let given = settings.iter().map(|(key, value)| (*key, value.as_str()));
    let asked: Vec<(&str, &str)> =
        given.chain(inherited.filter(|(key, _)| last(key).is_none())).collect();
    let has_callers = asked.iter().any(reports_callers);
    let object = library::object_for(slab.as_deref(), asked.into_iter());
    let named = || last("LIBRARY").map(OsString::from);
    let mut library = library::find(object, named())?;

    let path = env::var_os("PATH");
    let name = &args.program.command[0];
    let file = match program::locate(name, path.as_deref()) {
        Ok(file) => file,
        Err(reason) => return Ok(reason.told_of(name)),
    };
    let interpreter = program::interpreter_of(&file, path.as_deref());
    if let Some(missing) = missing(&file, &interpreter) {
        say(format_args!("{}: {missing}", name.display()));
        return Ok(CannotRun::NotFound.exit_status());
    }
    if interpose::is_loaded_by_musl(&interpreter)
        && let Some(for_musl) = library::find_for_musl(object, named())?
    {
        library = for_musl;
    }
    let plan = plan(name, &file, &interpreter, &library);

    let mut command = Command::new(&file);
    command.arg0(name).args(&args.program.command[1..]);
    if plan.preloads {
        command.env("LD_PRELOAD", preload_value(&[&library], env::var_os("LD_PRELOAD")));
    }
    command.env_remove(PID_VARIABLE);
    if plan.is_expected {
        command.env(PID_VARIABLE, std::process::id().to_string());
    }
    if plan.preloads && args.stats.is_some() {
        watch(last("STATS").unwrap_or_default(), last("STATS_FORMAT"), &mut command);
    }
    command.envs(settings.iter().map(|(key, value)| (format!("QUARRY_{key}"), value)));
    if plan.is_expected
        && has_callers
        && let Err(error) = name_callers_of(&mut command)
    {
        say(format_args!("reports will have addresses without names: {error:#}"));
    }
    let error = command.exec();
    say(format_args!("{}: {error}", name.display()));
    let missing = error.kind() == io::ErrorKind::NotFound;
    let reason = if missing { CannotRun::NotFound } else { CannotRun::NotExecutable };
    Ok(reason.exit_status())
}

/// Returns whether a setting asks for checks whose reports have call stacks.
fn reports_callers((key, value): &(&str, &str)) -> bool {
    match *key {
        "DEBUG" => asks_for_records(key, value),
        "GUARD" => *value != "0",
        _ => false,
    }
}

/// Starts a watcher, which prints the statistics that processes cannot print themselves: those of
/// the program after a signal or `_exit`, and those of its children. Unless `QUARRY_RECORD` is set,
/// the processes then publish not only while they run, but also at their start and exit.
fn watch(target: &str, format: Option<&str>, command: &mut Command) {
    if matches!(target, "" | "0") {
        return;
    }
    match watcher::start(target, format) {
        Ok(Some(socket)) => {
            command.env(watcher::SOCKET_VARIABLE, socket);
            if env::var_os("QUARRY_RECORD").is_none() {
                command.env("QUARRY_RECORD", "exit");
            }
        }
        Ok(None) => {}
        Err(error) => {
            say(format_args!("--stats: nothing will be printed after a signal or _exit: {error:#}"))
        }
    }
}

/// The library's variables in the environment, without their prefix.
fn variables() -> Vec<(String, String)> {
    let names = env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?.strip_prefix("QUARRY_")?.to_owned();
        Some((name, value.into_string().ok()?))
    });
    names.collect()
}

/// The slab policy in the environment; the library reads all other variables itself.
fn slab_of_environment() -> anyhow::Result<Option<String>> {
    let Some(value) = env::var_os("QUARRY_SLAB") else { return Ok(None) };
    let setting = Setting::parse(&format!("SLAB={}", value.display()));
    Ok(Some(setting.map_err(|error| Usage(format!("QUARRY_{error}")))?.value))
}

/// Returns the settings of `--set`, `--slab` and `--stats`; a bad value is an error.
fn settings(args: &RunArgs) -> anyhow::Result<Vec<(&'static str, String)>> {
    let of_slab = args.slab.iter().map(|slab| ("--slab: ", format!("SLAB={slab}")));
    let assignments = args.set.iter().map(|text| ("--set ", text.clone())).chain(of_slab);
    let mut settings = Vec::new();
    for (option, assignment) in assignments {
        let setting = Setting::parse(&assignment);
        let setting = setting.map_err(|error| Usage(format!("{option}{error}")))?;
        settings.push((setting.key, setting.value));
    }
    if let Some(target) = &args.stats {
        settings.push(("STATS", target.clone()));
    }
    // The program may change its working folder before it ends.
    for (key, value) in &mut settings {
        if *key == "STATS" && !matches!(value.as_str(), "" | "0" | "1") {
            if !watcher::is_file_name(value) {
                bail!(Usage(format!(
                    "--stats={value}: accepted after %: p for the number of the process, or \
                     another %"
                )));
            }
            let absolute =
                std::path::absolute(&*value).with_context(|| format!("--stats={value}"))?;
            if let Err(why) = may_be_written(&absolute) {
                bail!(Usage(format!(
                    "--stats={value}: {why}; accepted: a regular file, or a new one in a folder"
                )));
            }
            *value = absolute.to_str().map(str::to_owned).context("--stats: not UTF-8")?;
        }
    }
    Ok(settings)
}

/// Checks that the library, which follows no link and makes no folder, can write a statistics file.
fn may_be_written(file: &Path) -> Result<(), String> {
    let is_allowed = |path: &Path, access| {
        faccessat(AT_FDCWD, path, access, AtFlags::AT_EACCESS).map_err(|it| it.desc().to_owned())
    };
    match fs::symlink_metadata(file) {
        Ok(metadata) if metadata.is_file() => is_allowed(file, AccessFlags::W_OK),
        Ok(_) => Err("not a regular file".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = file.parent().unwrap_or(Path::new("/"));
            is_allowed(folder, AccessFlags::W_OK | AccessFlags::X_OK)
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Names a missing file without which the program cannot start; the kernel's error names no file.
fn missing(file: &Path, interpreter: &Path) -> Option<String> {
    if !interpreter.exists() {
        let bytes = interpreter.as_os_str().as_bytes();
        let why = if bytes.ends_with(b"\r") { " (its line ends in a carriage return)" } else { "" };
        let interpreter = interpreter.display().to_string();
        return Some(format!("its interpreter {} does not exist{why}", interpreter.trim_end()));
    }
    let loader = interpose::missing_loader(interpreter)?;
    let owner =
        if interpreter == file { "its".into() } else { format!("{}'s", interpreter.display()) };
    Some(format!("{owner} loader {} does not exist", loader.display()))
}

struct Plan {
    preloads: bool,
    /// True if the library is expected to serve the program, and so reports if it does not.
    is_expected: bool,
}

/// Looks for obstacles and prints them.
fn plan(name: &OsStr, file: &Path, interpreter: &Path, library: &Path) -> Plan {
    let name = name.display();
    let path = env::var_os("PATH");
    if let Some(obstacle) = interpose::obstacle(interpreter, library) {
        let outcome = if obstacle.is_partial() { "" } else { "; it runs without Quarry" };
        let which = match interpreter == file {
            true => String::new(),
            false => format!(": its interpreter {}", interpreter.display()),
        };
        say(format_args!("{name}{which} {obstacle}{outcome}"));
        return Plan { preloads: !obstacle.forbids_preloading(), is_expected: false };
    }
    let mut plan = Plan { preloads: true, is_expected: true };
    if interpreter == file {
        return plan;
    }
    for wrapped in wrapper::programs_of(file, interpreter, path.as_deref()) {
        let runs = program::interpreter_of(&wrapped, path.as_deref());
        let Some(obstacle) = interpose::obstacle(&runs, library) else { continue };
        plan.preloads &= !obstacle.forbids_preloading();
        plan.is_expected = false;
        let wrapped = wrapped.display();
        let outcome = if obstacle.is_partial() { "" } else { "; it runs without Quarry" };
        say(format_args!("{name} is a script that may run {wrapped}: that {obstacle}{outcome}"));
    }
    plan
}
