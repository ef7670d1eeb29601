//! The processes of a sample, as `/proc` shows them.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quarry_harness::proc;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// A process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// Its id.
    pub(super) pid: i32,
    /// User and system time, in clock ticks.
    pub(super) cpu_ticks: u64,
    /// Resident memory, in bytes.
    pub(super) resident: u64,
    /// Peak of its resident memory since its exec, in bytes.
    pub(super) peak: u64,
    parent: i32,
    state: char,
}

/// The part of a process that is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The last program that it ran.
    pub(super) executable: PathBuf,
    /// User and system time when it was last looked at, in clock ticks.
    pub(super) cpu_ticks: u64,
}

/// The descendants of a process, without itself.
#[derive(Debug)]
pub(super) struct Tree {
    root: i32,
    page_size: u64,
    /// True if memory that processes share is divided among them (PSS) instead of counted in each
    /// (RSS).
    proportional: bool,
    /// Every process that was ever seen in it.
    pub(super) seen: BTreeMap<i32, Seen>,
}

impl Tree {
    /// The descendants of `root`.
    pub(super) fn below(root: i32) -> Self {
        let page_size = proc::page_size();
        Self { root, page_size, proportional: false, seen: BTreeMap::new() }
    }

    /// Reads them again, with shared memory divided among them or not.
    pub(super) fn dividing(self, proportional: bool) -> Self {
        Self { proportional, ..self }
    }

    /// Looks at all of them; those that have ended and wait for their parent are left out.
    pub(super) fn look(&mut self) -> Vec<Process> {
        let mut living = self.living();
        for process in &mut living {
            process.peak = proc::peak(process.pid as u32).unwrap_or(0).max(process.resident);
            if self.proportional {
                // Of a process that is about to end the kernel says nothing.
                process.resident =
                    proc::proportional(process.pid as u32).unwrap_or(process.resident);
            }
            let seen = self.seen.entry(process.pid).or_default();
            seen.cpu_ticks = seen.cpu_ticks.max(process.cpu_ticks);
            if let Ok(executable) = fs::read_link(format!("/proc/{}/exe", process.pid)) {
                seen.executable = executable;
            }
        }
        living
    }

    fn living(&self) -> Vec<Process> {
        let mut found = Vec::new();
        let mut waiting = vec![self.root];
        while let Some(pid) = waiting.pop() {
            waiting.extend(children_of(pid));
            if pid == self.root {
                continue;
            }
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            found.extend(parse_stat(pid, &text, self.page_size));
        }
        found.retain(|process| !matches!(process.state, 'Z' | 'X'));
        found
    }

    /// Sends a signal to all of them. Returns how many there were.
    pub(super) fn signal(&self, signal: Signal) -> usize {
        let living = self.living();
        for process in &living {
            // The process may have ended meanwhile.
            let _ = kill(Pid::from_raw(process.pid), signal);
        }
        living.len()
    }
}

/// Returns the processes that the threads of a process have started and those that have fallen to
/// it. Kernels without `CONFIG_PROC_CHILDREN` are asked for the parent of every process instead.
fn children_of(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => children.extend(text.split(' ').filter_map(|it| it.parse::<i32>().ok())),
            Err(error) if error.kind() == ErrorKind::NotFound && thread.path().exists() => {
                return children_by_parent(pid);
            }
            Err(_) => {}
        }
    }
    children
}

fn children_by_parent(parent: i32) -> Vec<i32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        parse_stat(*pid, &text, 1).is_some_and(|process| process.parent == parent)
    };
    pids.filter(is_child).collect()
}

/// Reads a line of `/proc/PID/stat` (proc_pid_stat(5)). The name, which may hold anything, ends at
/// the last parenthesis.
fn parse_stat(pid: i32, text: &str, page_size: u64) -> Option<Process> {
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        pid,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        cpu_ticks: number(11)? + number(12)?,
        resident: number(21)? * page_size,
        peak: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn names_with_parentheses_are_read() {
        let text = "7 (a) R (b) c) S 3 7 7 0 -1 4194560 100 0 0 0 11 5 0 0 20 0 1 0 100 2000000 \
                    250 18446744073709551615";
        let process = parse_stat(7, text, 4096).unwrap();
        assert_eq!((process.parent, process.state, process.cpu_ticks), (3, 'S', 16));
        assert_eq!(process.resident, 250 * 4096);
        assert_eq!(parse_stat(7, "7 (cut", 4096), None);
        assert_eq!(parse_stat(7, "7 (cut) S 3", 4096), None);
    }

    #[test]
    fn children_and_grandchildren_are_seen_and_ended() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 600 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The grandchild is there once the line has come.
        let mut line = String::new();
        let pipe = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(pipe), &mut line).unwrap();
        let mut tree = Tree::below(child.id() as i32);
        // The process may still be on its way through exec, with nothing resident.
        let living = loop {
            match tree.look() {
                living if living.iter().any(|it| it.resident > 0) => break living,
                _ => std::thread::yield_now(),
            }
        };
        assert_eq!(living.len(), 1, "{living:?}");
        assert!(living[0].resident > 0 && living[0].peak >= living[0].resident);
        assert!(!tree.seen[&living[0].pid].executable.as_os_str().is_empty());
        let divided = Tree::below(child.id() as i32).dividing(true).look()[0].resident;
        assert!((1..living[0].resident).contains(&divided), "the C library is shared: {divided}");
        assert_eq!(children_by_parent(child.id() as i32), [living[0].pid]);
        assert_eq!(tree.signal(Signal::SIGKILL), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(tree.signal(Signal::SIGKILL), 0);
    }
}
