//! Cells of a simulated machine, each in a process of its own.
//!
//! The simulated machine is in another program, `quarry-sim`: the choice between a simulated and
//! the real machine under `quarry-sys` is made when a program is built.

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use quarry_cli::exit_status::say;
use quarry_cli::library;
use quarry_harness::table::{counted, figure};
use quarry_harness::usage::Usage;
use quarry_sim::Costs;
use quarry_sim::simulate::{Answer, Cell};
use std::io::{IsTerminal, Write, stderr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The costs that a TOML file names, else the usual ones.
///
/// # Errors
/// A usage error: the file cannot be read, or names impossible costs.
pub fn costs_of(file: Option<&Path>, usual: Costs) -> Result<Costs> {
    let Some(path) = file else { return Ok(usual) };
    let refuse = |what: String| Usage(format!("--costs {}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    Ok(Costs::from_toml(&text).map_err(|error| refuse(format!("{error:#}")))?)
}

/// Runs all cells, as many at a time as there are CPUs. The answers are in the order of the cells.
///
/// # Errors
/// If the simulator is not there, or fails.
pub fn ask_all(cells: &[Cell]) -> Result<Vec<Answer>> {
    let simulator = library::find_companion("quarry-sim")?;
    let name = |cell: &Cell| format!("{}, {}", cell.slab, counted(cell.topology.cpus(), "CPU"));
    in_parallel(cells, name, |cell| ask(&simulator, cell).with_context(|| cell.slab.clone()))
}

/// Does `one` with each of `all`, with as many at a time as there are CPUs, and shows how many are
/// done. The answers are in the order of `all`.
pub(crate) fn in_parallel<T: Sync, A: Send>(
    all: &[T],
    name: impl Fn(&T) -> String + Sync,
    one: impl Fn(&T) -> Result<A> + Sync,
) -> Result<Vec<A>> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?;
    let progress = ProgressBar::new(all.len() as u64).with_style(style);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut answers = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(it) = all.get(index) else { return answers };
            progress.set_message(name(it));
            answers.push((index, one(it)));
            progress.inc(1);
        }
    };
    let workers = || {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cpus()).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|it| it.join().expect("a worker does not panic")).collect()
        })
    };
    let done = || format!("{} of {} runs done", progress.position(), all.len());
    let mut answers: Vec<_> = reporting("", done, workers);
    progress.finish_and_clear();
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// CPUs that this process may use.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Time between two lines that report, where no terminal shows it, that a command still runs.
const OFTEN: Duration = Duration::from_secs(20);

/// Time after which a command is known to be accepted.
const SOON: Duration = Duration::from_secs(1);

/// Does `body`. Soon after its start prints how long it takes, if that is known. Where no terminal
/// shows its progress, `progress` and the time are printed from time to time.
pub(crate) fn reporting<R>(
    takes: &str,
    progress: impl Fn() -> String + Sync,
    body: impl FnOnce() -> R,
) -> R {
    let (running, ended) = channel::<()>();
    let progress = &progress;
    thread::scope(|scope| {
        scope.spawn(move || {
            let began = Instant::now();
            let runs_on = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if !takes.is_empty() && runs_on(SOON) {
                say(format_args!("{takes}"));
            }
            while !stderr().is_terminal() && runs_on(OFTEN) {
                say(format_args!("{} after {} s", progress(), began.elapsed().as_secs()));
            }
        });
        let result = body();
        drop(running);
        result
    })
}

/// Runs one cell in a new process, so that each cell starts with a fresh heap.
fn ask(simulator: &Path, cell: &Cell) -> Result<Answer> {
    let mut child = Command::new(simulator)
        .arg("simulate")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| simulator.display().to_string())?;
    let mut question = child.stdin.take().context("no pipe to the simulator")?;
    question.write_all(&serde_json::to_vec(cell)?)?;
    drop(question);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}: {}", simulator.display(), output.status, said.trim_end());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A figure of tables: the head of its column, and the function that takes it from an answer.
pub type Figure = (&'static str, fn(&Answer) -> f64);

/// The figures of tables.
pub const FIGURES: [Figure; 8] = [
    ("CPU-ns a call", Answer::cpu_ns),
    ("ns in the call", |it| it.call_ns),
    ("% waiting", |it| 100.0 * it.waiting),
    ("locks/1000", |it| it.locks_per_1000),
    ("lines/call", |it| it.lines_per_call),
    ("live MiB", |it| it.live_bytes as f64 / 1048576.0),
    ("peak MiB", |it| it.peak_bytes as f64 / 1048576.0),
    ("parked MiB", |it| it.parked_bytes as f64 / 1048576.0),
];
/// The heads of the last two columns.
pub const WAITS: [&str; 2] = ["waits for locks, %", "waits for lines, ns a call"];

/// The waits for locks and for lines, with the figures that tables have.
#[must_use]
pub fn waits(answer: &Answer) -> [Vec<(String, f64)>; 2] {
    let shares = answer.lock_waits.iter().map(|(name, share)| (name.clone(), 100.0 * share));
    [shares.collect(), answer.line_waits.clone()]
}

/// The three longest of the waits, if they are worth a mention, each with its figure.
#[must_use]
pub fn longest(waits: &[(String, f64)]) -> String {
    let shown = waits.iter().filter(|(_, wait)| *wait >= 0.1).take(3);
    let shown: Vec<_> = shown.map(|(name, wait)| format!("{name} {}", figure(*wait))).collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}
