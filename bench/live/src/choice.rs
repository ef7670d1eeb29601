//! Chooses processes by number, name or control group.

use crate::problem::Problem;
use crate::process::{Process, parse_pid};
use crate::snapshot::Snapshot;
use crate::tree::{Tree, read_tree};
use procfs::process;
use std::cmp::Reverse;
use std::path::Path;

/// The processes that a command is about.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "choice")]
pub struct Choice {
    /// The process, which runs on Quarry [default: the only one that does; all for ps and metrics].
    #[arg(long, value_name = "N", value_parser = parse_pid)]
    pub pid: Option<u32>,
    /// Processes that have this name, whose program has it, or that were started by it.
    #[arg(long, value_name = "NAME", conflicts_with = "pid")]
    pub name: Option<String>,
    /// Processes in this control group or below it, such as redis.service or /system.slice.
    #[arg(long, value_name = "GROUP", conflicts_with = "pid")]
    pub cgroup: Option<String>,
}

/// A process on Quarry, with its figures or the reason why they cannot be read.
#[derive(Debug)]
pub struct Found {
    /// The process.
    pub process: Process,
    /// Its figures.
    pub figures: Result<Snapshot, Problem>,
}

impl Choice {
    /// Returns whether processes that start later may match the choice.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.pid.is_none()
    }

    /// The chosen processes that run on Quarry; without a choice, all that this user may read, and
    /// the number of processes that the kernel hides from the user. O(processes of the machine).
    ///
    /// Fails only if the choice is a number: with `NoProcess`, or a problem that does not pass.
    pub fn find(&self) -> Result<(Vec<Found>, usize), Problem> {
        let processes = match self.pid {
            Some(pid) => vec![Process::new(pid)?],
            None => self.matching(),
        };
        let (mut found, mut hidden) = (Vec::new(), 0);
        for process in processes {
            match process.read() {
                Err(Problem::Ended(_) | Problem::NoQuarry(_)) if self.is_open() => {}
                Err(problem) if self.is_any() && problem.is_of_rights() => hidden += 1,
                Err(problem) if !self.is_open() && !problem.may_pass() => return Err(problem),
                figures => found.push(Found { process, figures }),
            }
        }
        Ok((found, hidden))
    }

    /// The figures of the chosen processes; with `trees`, also of their descendants.
    ///
    /// # Errors
    /// `NoneChosen` if no process matches; if none has figures, the problem of the first one.
    pub fn read(&self, trees: bool) -> Result<Tree, Problem> {
        let (mut all, mut problem) = (Tree::default(), None);
        let only = |it| Tree { snapshots: vec![it], others: 0 };
        let parts: Vec<_> = match (trees, self.pid) {
            (true, Some(pid)) => return read_tree(pid),
            (true, None) => self.matching().iter().map(|it| read_tree(it.who().pid)).collect(),
            (false, _) => self.find()?.0.into_iter().map(|it| it.figures.map(only)).collect(),
        };
        for part in parts {
            match part {
                Ok(Tree { snapshots, others }) => {
                    for new in snapshots {
                        if all.snapshots.iter().all(|it| it.process.pid != new.process.pid) {
                            all.snapshots.push(new);
                        }
                    }
                    all.others += others;
                }
                Err(Problem::NoQuarry(_)) if self.is_open() => {}
                Err(error) => {
                    all.others += 1;
                    problem = problem.or(Some(error));
                }
            }
        }
        match all.snapshots.is_empty() {
            true => Err(problem.unwrap_or_else(|| self.nothing())),
            false => Ok(all),
        }
    }

    /// The only chosen process; if there are several, the only one that has figures.
    ///
    /// # Errors
    /// `NoneChosen`, `SeveralChosen`; `NoProcess` and `Ended` if the choice is a number.
    pub fn only(&self) -> Result<Process, Problem> {
        self.one("")
    }

    fn one(&self, advice: &'static str) -> Result<Process, Problem> {
        if let Some(pid) = self.pid {
            return Process::new(pid);
        }
        let mut found = self.find()?.0;
        if found.iter().any(|it| it.figures.is_ok()) {
            found.retain(|it| it.figures.is_ok());
        }
        match found.len() {
            0 => Err(self.nothing()),
            1 => Ok(found.remove(0).process),
            _ => {
                // The largest is proposed: of a prefork service, a worker and not its master.
                let resident = |it: &Found| it.figures.as_ref().ok().and_then(|it| it.resident);
                found.sort_by_key(|it| Reverse(resident(it)));
                let processes = found.iter().map(|it| it.process.who().clone()).collect();
                Err(Problem::SeveralChosen(self.options(), processes, advice))
            }
        }
    }

    /// This choice; if it is empty, the only process on Quarry, chosen by its number.
    ///
    /// # Errors
    /// Those of [`only`](Self::only).
    pub fn settled(&self) -> Result<Self, Problem> {
        let only = || self.one(", or their sum by --name").map(|it| it.who().pid);
        let pid = self.is_any().then(only).transpose()?;
        Ok(pid.map_or_else(|| self.clone(), |pid| Self { pid: Some(pid), ..Self::default() }))
    }

    fn is_any(&self) -> bool {
        self.pid.is_none() && self.name.is_none() && self.cgroup.is_none()
    }

    /// The problem that no process matches the choice.
    #[must_use]
    pub fn nothing(&self) -> Problem {
        Problem::NoneChosen(self.options())
    }

    /// The options that choose by name or control group.
    fn options(&self) -> String {
        let options = [("--name", &self.name), ("--cgroup", &self.cgroup)].into_iter();
        let given = options.filter_map(|(option, it)| Some(format!("{option} {}", it.as_ref()?)));
        given.collect::<Vec<_>>().join(" ")
    }

    fn matching(&self) -> Vec<Process> {
        let all = process::all_processes().into_iter().flatten().flatten();
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let wanted = all.filter(|it| it.pid != own && self.has_name(it) && self.has_group(it));
        wanted.filter_map(|it| Process::new(it.pid.unsigned_abs()).ok()).collect()
    }

    fn has_name(&self, of: &process::Process) -> bool {
        let Some(name) = &self.name else { return true };
        let is_it = |path: &Path| path.file_name().is_some_and(|it| it == name.as_str());
        of.stat().is_ok_and(|it| it.comm == *name)
            || of.exe().is_ok_and(|it| is_it(&it))
            || of.cmdline().is_ok_and(|it| it.first().is_some_and(|it| is_it(it.as_ref())))
    }

    fn has_group(&self, of: &process::Process) -> bool {
        let Some(group) = &self.cgroup else { return true };
        of.cgroups().is_ok_and(|it| it.into_iter().any(|it| is_within(&it.pathname, group)))
    }
}

/// Returns whether a control group is `wanted` (a path, or the name of one folder) or below it.
fn is_within(group: &str, wanted: &str) -> bool {
    let wanted = wanted.strip_prefix("/sys/fs/cgroup").unwrap_or(wanted);
    match wanted.starts_with('/') {
        true => Path::new(group).starts_with(wanted),
        false => Path::new(group).iter().any(|it| it == wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_path_or_the_name_of_a_folder() {
        let group = "/system.slice/redis.service/worker";
        for wanted in
            ["/system.slice", "/", "/sys/fs/cgroup/system.slice", "redis.service", "worker"]
        {
            assert!(is_within(group, wanted), "{wanted}");
        }
        for wanted in ["/system", "/redis.service", "redis", ""] {
            assert!(!is_within(group, wanted), "{wanted}");
        }
    }

    #[test]
    fn a_name_that_no_process_has_chooses_nothing() {
        let choice = Choice { name: Some("no such name".to_owned()), ..Choice::default() };
        let said = choice.only().unwrap_err().to_string();
        assert!(said.contains("this name or control group: --name no such name; "), "{said}");
        assert!(matches!(choice.read(true), Err(Problem::NoneChosen { .. })));
        assert!(choice.settled().is_ok_and(|it| it.name.is_some()), "it may come");
    }
}
