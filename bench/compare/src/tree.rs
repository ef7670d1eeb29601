//! The processes of a sample, from `/proc`.

use super::witness;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::ProcError;
use procfs::process::{self, Stat, all_processes};
use quarry_harness::proc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// User and system time, in clock ticks.
    pub(super) cpu_ticks: u64,
    pub(super) resident: u64,
    pub(super) peak: u64,
    /// Bytes in huge pages, as last counted (see [`Huge::is_due`]).
    pub(super) huge: u64,
    /// True while its heap is aged: what it holds then, before its `main`, is not the program's.
    pub(super) is_ageing: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Huge {
    bytes: u64,
    resident: u64,
}

impl Huge {
    /// Returns whether the process has grown by over an eighth since the last count, for which the
    /// kernel walks the page tables. So all counts take less than 10 times as long as the last one.
    fn is_due(self, resident: u64) -> bool {
        resident > self.resident + self.resident / 8
    }
}

/// The facts of a process that are kept after its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Descendant {
    pub(super) executable: PathBuf,
    /// User and system time at the last look, in clock ticks.
    pub(super) cpu_ticks: u64,
    pub(super) threads: u64,
}

#[derive(Debug)]
pub(super) struct Tree {
    root: i32,
    /// True if shared memory is divided among the processes (PSS) instead of counted in each (RSS).
    proportional: bool,
    pub(super) seen: BTreeMap<i32, Descendant>,
    huge: BTreeMap<i32, Huge>,
    /// For each thread, how long it has waited for a CPU, in ns, as far as the kernel tells.
    pub(super) delays: BTreeMap<i32, u64>,
}

impl Tree {
    pub(super) fn below(root: i32, proportional: bool) -> Self {
        Self {
            root,
            proportional,
            seen: BTreeMap::new(),
            huge: BTreeMap::new(),
            delays: BTreeMap::new(),
        }
    }

    /// Notes how long each thread of a process, which may be a zombie, has waited for a CPU.
    pub(super) fn note_delays(&mut self, pid: i32) {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let Some(tid) = thread.file_name().to_str().and_then(|it| it.parse().ok()) else {
                continue;
            };
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            if let Some(delay) = delay_of(&text) {
                let most = self.delays.entry(tid).or_default();
                *most = delay.max(*most);
            }
        }
    }

    /// Looks at all descendants of the root except zombies.
    pub(super) fn look(&mut self) -> Vec<Process> {
        let mut living = Vec::new();
        for (process, stat) in self.living() {
            let pid = stat.pid;
            self.note_delays(pid);
            let cpu_ticks = stat.utime + stat.stime;
            let resident = stat.rss * procfs::page_size();
            let peak = proc::peak(pid as u32).unwrap_or(0).max(resident);
            // Near the end of a process the kernel reports no PSS.
            let divided = self.proportional.then(|| proc::proportional(pid as u32)).flatten();
            let huge = self.count_huge(pid, resident);
            let resident = divided.unwrap_or(resident);
            let is_ageing = stat.comm == witness::ageing();
            living.push(Process { pid, cpu_ticks, resident, peak, huge, is_ageing });
            let seen = self.seen.entry(pid).or_default();
            seen.cpu_ticks = seen.cpu_ticks.max(cpu_ticks);
            seen.threads = seen.threads.max(stat.num_threads.max(0) as u64);
            if let Ok(executable) = process.exe() {
                seen.executable = executable;
            }
        }
        living
    }

    fn count_huge(&mut self, pid: i32, resident: u64) -> u64 {
        let huge = self.huge.entry(pid).or_default();
        if huge.is_due(resident)
            && let Some(bytes) = proc::huge(pid as u32)
        {
            *huge = Huge { bytes, resident };
        }
        huge.bytes
    }

    fn living(&self) -> Vec<(process::Process, Stat)> {
        let mut found = Vec::new();
        let mut waiting = vec![self.root];
        while let Some(pid) = waiting.pop() {
            let Ok(process) = process::Process::new(pid) else { continue };
            waiting.extend(children_of(&process));
            if let Ok(stat) = process.stat()
                && pid != self.root
                && !matches!(stat.state, 'Z' | 'X')
            {
                found.push((process, stat));
            }
        }
        found
    }

    /// The names of the programs that live, each once.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.living().into_iter().map(|(_, stat)| stat.comm).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(super) fn signal(&self, signal: Signal) {
        for (process, _) in self.living() {
            // The process may have ended already.
            let _ = kill(Pid::from_raw(process.pid), signal);
        }
    }
}

/// How long the main thread of a process has waited for a CPU, as far as the kernel tells.
pub(super) fn delay(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    delay_of(&text).unwrap_or_default()
}

/// The second number of a `schedstat`; without accounting in the kernel all numbers are 0.
fn delay_of(schedstat: &str) -> Option<u64> {
    let mut numbers = schedstat.split_whitespace().map_while(|it| it.parse::<u64>().ok());
    numbers.next().filter(|ran| *ran > 0)?;
    numbers.next()
}

/// The processes that a process has started or adopted, with or without `CONFIG_PROC_CHILDREN`.
fn children_of(parent: &process::Process) -> Vec<i32> {
    let mut children = Vec::new();
    for thread in parent.tasks().into_iter().flatten().flatten() {
        match thread.children() {
            Ok(own) => children.extend(own.into_iter().map(|pid| pid as i32)),
            Err(ProcError::NotFound(_)) if thread.stat().is_ok() => {
                return children_by_parent(parent.pid);
            }
            Err(_) => {}
        }
    }
    children
}

fn children_by_parent(parent: i32) -> Vec<i32> {
    let all = all_processes().into_iter().flatten().flatten();
    let is_child = |it: &process::Process| it.stat().is_ok_and(|stat| stat.ppid == parent);
    all.filter(is_child).map(|it| it.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn huge_pages_are_counted_when_a_process_has_grown() {
        let mut huge = Huge::default();
        assert!(!huge.is_due(0) && huge.is_due(1));
        huge = Huge { bytes: 0, resident: 80 << 20 };
        assert!(!huge.is_due(80 << 20) && !huge.is_due(90 << 20));
        assert!(huge.is_due((90 << 20) + 1));
        let counts = std::iter::successors(Some(1u64 << 20), |at| Some(at + at / 8 + 1));
        let counts: Vec<u64> = counts.take_while(|at| *at <= 1 << 30).collect();
        let (all, last) = (counts.iter().sum::<u64>(), counts[counts.len() - 1]);
        assert!(all < 10 * last, "{all} {last}");
    }

    #[test]
    fn a_wait_for_a_cpu_is_read() {
        assert_eq!(delay_of("1000 20 3\n"), Some(20));
        assert_eq!(delay_of("0 0 0\n"), None, "the kernel does not account");
        assert_eq!(delay_of(""), None);
    }

    #[test]
    fn children_and_grandchildren_are_seen_and_ended() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 600 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // When the line has arrived, the grandchild exists.
        let mut line = String::new();
        let pipe = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(pipe), &mut line).unwrap();
        let mut tree = Tree::below(child.id() as i32, false);
        // In its exec it may have no resident memory; its wait for a CPU is known once it sleeps.
        let sleeps =
            |pid| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") S ");
        let living = loop {
            match tree.look() {
                living if living.iter().any(|it| it.resident > 0 && sleeps(it.pid)) => {
                    break living;
                }
                _ => std::thread::yield_now(),
            }
        };
        tree.look();
        assert_eq!(living.len(), 1, "{living:?}");
        assert!(living[0].resident > 0 && living[0].peak >= living[0].resident);
        assert!(living[0].huge <= living[0].peak);
        assert!(tree.huge[&living[0].pid].resident > 0, "they were counted");
        assert!(!tree.delays.is_empty(), "the kernel accounts for the wait for a CPU");
        assert!(!tree.seen[&living[0].pid].executable.as_os_str().is_empty());
        let divided = Tree::below(child.id() as i32, true).look()[0].resident;
        let whole = tree.look()[0].resident;
        assert!((1..whole).contains(&divided), "the C library is shared: {divided}");
        assert_eq!(children_by_parent(child.id() as i32), [living[0].pid]);
        tree.signal(Signal::SIGKILL);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(tree.look(), []);
    }
}
