//! `quarry record`: records the calls of malloc that a program makes.

use anyhow::{Context, bail};
use quarry_cli::exit_status::{of_own_failure, say};
use quarry_cli::library;
use quarry_cli::program::CommandLine;
use quarry_harness::Usage;
use quarry_harness::launch::preload_value;
use quarry_harness::table::counted;
use quarry_mm::heap::options::parse_bytes;
use quarry_trace::layout::{CHUNK_BYTES, file_bytes};
use quarry_trace::{Trace, TraceError};
use signal_hook::consts::{SIGINT, SIGQUIT};
use std::env;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const TRACER: &str = "libquarry_tracer.so";

/// Record each call of malloc that a program makes, with its thread, CPU and time.
///
/// The program runs on glibc's malloc; recording makes each call some 100 ns longer. `quarry
/// simulate` replays the trace on a machine of many CPUs. The exit status is the program's own, or
/// 125 if the program could not be recorded and did not run, or 2 for a wrong option.
#[derive(clap::Args)]
pub(crate) struct RecordArgs {
    /// File for the trace.
    #[arg(short, long, value_name = "FILE", default_value = "quarry.trace")]
    output: PathBuf,
    /// Maximum size of a trace, such as 64M (5 to 10 bytes a call). Further calls are only counted.
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes)]
    limit: usize,
    /// Also record programs that the program starts, each in FILE.PID.
    #[arg(long)]
    children: bool,
    #[command(flatten)]
    program: CommandLine,
}

fn bytes(text: &str) -> Result<usize, String> {
    let least = file_bytes(1);
    let bytes = parse_bytes(text).filter(|bytes| *bytes >= least);
    bytes.ok_or_else(|| format!("accepted: {least} or more bytes, such as 64M or 1G"))
}

pub(crate) fn run(args: &RecordArgs) -> i32 {
    match record(args) {
        Ok(status) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        Err(error) => {
            say(format_args!("{error:#}"));
            of_own_failure(&error)
        }
    }
}

fn record(args: &RecordArgs) -> anyhow::Result<ExitStatus> {
    let tracer = library::find_companion(TRACER)?;
    let trace = make_room(&args.output)?;
    let mut command = Command::new(&args.program.command[0]);
    command.args(&args.program.command[1..]);
    command.env("LD_PRELOAD", preload_value(&[&tracer], env::var_os("LD_PRELOAD")));
    command.env("QUARRY_TRACE", &trace).env("QUARRY_TRACE_BYTES", args.limit.to_string());
    command.env_remove("QUARRY_TRACE_CHILDREN");
    if args.children {
        command.env("QUARRY_TRACE_CHILDREN", "1");
    }
    // Ctrl-C also reaches the program, which decides how to react; this process only notes it. It
    // uses a handler because the program would inherit an ignored signal, but not a handler.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let name = args.program.command[0].display();
    let status = command.status().with_context(|| format!("{name} cannot be started"))?;
    let all = traces(&trace)?;
    if all.is_empty() {
        say(format_args!(
            "nothing was recorded: {name} is static, set-user-ID, or ended before it began; \
             `quarry run` says which"
        ));
    }
    all.iter().try_for_each(|trace| finish(trace))?;
    Ok(status)
}

/// Removes earlier traces of the program and its children, and no other file. Returns the absolute
/// path of the new trace, because the program may start in another folder.
fn make_room(output: &Path) -> anyhow::Result<PathBuf> {
    let trace = std::path::absolute(output)?;
    match fs::symlink_metadata(&trace) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = trace.parent().unwrap_or(Path::new("/"));
            if !folder.is_dir() {
                bail!(Usage(format!("--output {}: there is no such folder", output.display())));
            }
            return Ok(trace);
        }
        Err(error) => bail!(Usage(format!("--output {}: {error}", output.display()))),
        Ok(_) => {}
    }
    let all = traces(&trace)?;
    for earlier in &all {
        match Trace::check(earlier) {
            Ok(()) | Err(TraceError::Version { .. }) => {}
            Err(error) => bail!(Usage(format!("--output: {error}; it stays as it is"))),
        }
    }
    for earlier in all {
        fs::remove_file(&earlier).with_context(|| earlier.display().to_string())?;
    }
    Ok(trace)
}

/// The existing traces of the program and of its children.
fn traces(trace: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let folder = trace.parent().unwrap_or(Path::new("/"));
    let name = trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let other = entry.file_name().to_string_lossy().into_owned();
        let is_child = other
            .strip_prefix(&name)
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit()));
        if other == name || is_child {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn finish(path: &Path) -> anyhow::Result<()> {
    let trace = Trace::read(path)?;
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(file_bytes(trace.chunks) as u64).with_context(|| path.display().to_string())?;
    let (calls, bytes) = (trace.calls(), trace.chunks * CHUNK_BYTES);
    say(format_args!(
        "{}: {} of {} of `{}`, {:.1} MiB, {:.1} bytes a call",
        path.display(),
        counted(calls, "call"),
        counted(trace.threads.len(), "thread"),
        trace.command,
        bytes as f64 / 1048576.0,
        trace.event_bytes as f64 / calls.max(1) as f64,
    ));
    if trace.lost > 0 {
        say(format_args!(
            "{}: missing {}: the trace was full (--limit), or signal handlers made them",
            path.display(),
            counted(trace.lost, "further call")
        ));
    }
    Ok(())
}
