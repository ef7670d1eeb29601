//! Figures of a process and its descendants.

use crate::problem::Problem;
use crate::process::Process;
use crate::snapshot::Snapshot;
use procfs::{ProcError, process};

const MOST_PROCESSES: usize = 10_000;

/// The figures of a process and of its descendants.
#[derive(Debug, Default)]
pub struct Tree {
    /// Figures of the processes that publish some, parents first.
    pub snapshots: Vec<Snapshot>,
    /// Number of processes without readable figures.
    pub others: usize,
}

/// Reads a process and its descendants except orphans, whose parent has ended. O(processes).
///
/// # Errors
/// `NoProcess`; if no process has figures, the problem of `pid`.
pub fn read_tree(pid: u32) -> Result<Tree, Problem> {
    let root = Process::new(pid)?;
    let (mut snapshots, mut others, mut problem) = (Vec::new(), 0, None);
    match root.read() {
        Ok(snapshot) => snapshots.push(snapshot),
        Err(error) => (others, problem) = (1, Some(error)),
    }
    for pid in descendants(root.who().pid) {
        match Process::new(pid).and_then(|process| process.read()) {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(Problem::NoProcess(_) | Problem::Ended(_)) => {}
            Err(_) => others += 1,
        }
    }
    match problem {
        Some(problem) if snapshots.is_empty() => Err(problem),
        _ => Ok(Tree { snapshots, others }),
    }
}

fn descendants(root: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let (mut next, mut parent) = (0, root);
    loop {
        for child in children_of(parent) {
            if !found.contains(&child) && found.len() < MOST_PROCESSES {
                found.push(child);
            }
        }
        let Some(pid) = found.get(next) else { return found };
        (parent, next) = (*pid, next + 1);
    }
}

/// The processes that a process has started, with or without `CONFIG_PROC_CHILDREN`.
fn children_of(pid: u32) -> Vec<u32> {
    let threads = i32::try_from(pid).ok().and_then(|pid| process::Process::new(pid).ok());
    let mut children = Vec::new();
    for thread in threads.and_then(|it| it.tasks().ok()).into_iter().flatten().flatten() {
        match thread.children() {
            Ok(own) => children.extend(own),
            Err(ProcError::NotFound(_)) if thread.stat().is_ok() => return children_by_parent(pid),
            Err(_) => {}
        }
    }
    children
}

fn children_by_parent(parent: u32) -> Vec<u32> {
    let all = process::all_processes().into_iter().flatten().flatten();
    let is_child =
        |it: &process::Process| it.stat().is_ok_and(|stat| stat.ppid.unsigned_abs() == parent);
    all.filter(is_child).map(|it| it.pid.unsigned_abs()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_of_children_are_found() {
        // A shell gives its background jobs an empty input, unless told otherwise.
        let mut shell = Command::new("sh")
            .args(["-c", "exec 3<&0; cat <&3 & wait"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        // The shell starts `cat` some time after its own start; both run until the pipe is closed.
        let cat = loop {
            if let [cat] = descendants(shell.id())[..] {
                break cat;
            }
            std::thread::yield_now();
        };
        let found = descendants(std::process::id());
        let place = |pid: u32| found.iter().position(|it| *it == pid);
        assert!(place(shell.id()).is_some());
        assert!(place(shell.id()) < place(cat), "parents before children: {found:?}");
        assert!(matches!(read_tree(shell.id()), Err(Problem::NoQuarry(_))));
        drop(shell.stdin.take());
        shell.wait().expect("it ends");
    }
}
