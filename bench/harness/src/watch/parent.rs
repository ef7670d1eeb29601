//! The parent's side: starts a watched process and reads its memory at intervals.

use super::control_group::ControlGroup;
use crate::launch::{self, Order};
use crate::proc;
use crate::results::{Measurement, Reading, Timeline};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Names the file through which a watched process joins its control group.
pub const GROUP_VARIABLE: &str = "LAB_CONTROL_GROUP";

/// The parent's observations of a process, and the process's measurement.
pub type Watched = (Timeline, Measurement);

/// Starts a sample process and reads its memory every `interval`. `last` is the name of a phase and
/// a time: the process may end when that time has passed since it announced the phase.
///
/// # Errors
/// How the process failed.
pub fn watch(
    order: &Order,
    preload: Option<&Path>,
    settings: &[(String, String)],
    interval: Duration,
    last: (&str, Duration),
) -> Result<Watched> {
    let group = ControlGroup::create();
    let mut command = launch::command(order, preload, settings)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(group) = &group {
        command.env(GROUP_VARIABLE, group.entrance());
    }
    let taken = || proc::taken().unwrap_or(0) as i64;
    let taken_before = taken();
    let start = Instant::now();
    let mut child = command.spawn().context("cannot start a sample")?;
    let lines = lines_of(child.stdout.take().context("no pipe")?, start);
    let (mut readings, mut phases) = (Vec::new(), Vec::<(f64, String)>::new());
    let mut end = None;
    while end.is_none_or(|end| Instant::now() < end) {
        for (ms, line) in lines.try_iter() {
            if line.split(' ').next() == Some(last.0) {
                end = Some(start + Duration::from_secs_f64(ms / 1e3) + last.1);
            }
            phases.push((ms, line));
        }
        if child.try_wait()?.is_some() {
            break;
        }
        let ms = start.elapsed().as_secs_f64() * 1e3;
        if let Some(resident) = proc::resident(child.id()) {
            let charged = match &group {
                Some(group) => group.bytes().unwrap_or(0) as i64,
                None => taken() - taken_before,
            };
            readings.push(Reading { ms, resident, charged });
        }
        thread::sleep(interval);
    }
    drop(child.stdin.take());
    let answer: Vec<(f64, String)> = lines.iter().collect();
    let answer = answer.last().map_or("", |(_, line)| line.as_str());
    let measurement = launch::answer_of(&child.wait_with_output()?, answer.as_bytes())?;
    Ok((Timeline { readings, phases, in_group: group.is_some() }, measurement))
}

/// The lines that a process writes, each with its time of arrival in ms.
fn lines_of(stdout: ChildStdout, start: Instant) -> Receiver<(f64, String)> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // The receiver is gone if the sample was given up.
            let _ = sender.send((start.elapsed().as_secs_f64() * 1e3, line));
        }
    });
    receiver
}
