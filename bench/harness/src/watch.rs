//! Sample processes whose memory their parent reads while they run.
//!
//! A watched process runs a workload and announces each phase on standard output by a line `NAME
//! VALUE..`. It does not allocate for this line, so that only the workload changes its memory. At
//! the end it waits until its standard input closes, and prints its measurement, which names the
//! object that served `malloc`.

use crate::launch::{self, Order};
use crate::proc;
use crate::results::{Measurement, Reading, Timeline};
use anyhow::{Context, Result};
use procfs::{FromRead, ProcessCGroups};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
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

/// A memory control group for one sample, if the machine permits it.
struct ControlGroup {
    folder: PathBuf,
    usage: PathBuf,
}

impl ControlGroup {
    /// Creates a group; `None` without permission or without the memory controller.
    fn create() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (parent, usage) = own_group()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("quarry-lab-{}-{number}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let group = Self { usage: folder.join(usage), folder };
        // In version 2 the file exists only if the parent group delegates the memory controller.
        fs::read(&group.usage).ok()?;
        Some(group)
    }

    fn entrance(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    fn bytes(&self) -> Option<u64> {
        fs::read_to_string(&self.usage).ok()?.trim().parse().ok()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // This fails only while a process of the group lives; the group then stays.
        let _ = fs::remove_dir(&self.folder);
    }
}

fn own_group() -> Option<(PathBuf, &'static str)> {
    let groups = ProcessCGroups::from_file("/proc/self/cgroup").ok()?.0;
    let v1 = groups.iter().find(|it| it.controllers.iter().any(|name| name == "memory"));
    let (root, usage) = match v1 {
        Some(_) => ("/sys/fs/cgroup/memory", "memory.usage_in_bytes"),
        None => ("/sys/fs/cgroup", "memory.current"),
    };
    let group = v1.or_else(|| groups.iter().find(|it| it.hierarchy == 0))?;
    Some((existing(root, group.pathname.trim_start_matches('/'))?, usage))
}

/// In a container the path may be the host's; then the root of the mount is the group.
fn existing(root: &str, path: &str) -> Option<PathBuf> {
    [Path::new(root).join(path), PathBuf::from(root)]
        .into_iter()
        .find(|folder| folder.join("cgroup.procs").exists())
}
