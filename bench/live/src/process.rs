//! Finds the statistics page of a running process.
//!
//! `/proc/PID/fd` is open to readers with `PTRACE_MODE_READ` (see `ptrace(2)`): to root, and to the
//! process's user as long as the process is dumpable. Yama and a missing right to trace restrict
//! only attaching, so they do not matter here. The same readers may list mappings, but only root
//! may open them (`map_files`).

use crate::label::Label;
use crate::page::{Page, Refusal};
use crate::place::Place;
use crate::problem::{Problem, Who};
use crate::snapshot::Snapshot;
use crate::{clock, from_record};
use procfs::ProcError;
use procfs::process::{self, MMapPath, MemoryMap};
use quarry_record::{LEAST_DESCRIPTOR, MEMFD_NAME, PAGE_BYTES, RecordError};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Parses a process number from the command line.
///
/// # Errors
/// The accepted form, if `text` is not a PID.
pub fn parse_pid(text: &str) -> Result<u32, &'static str> {
    let pid = text.parse().ok().filter(|pid: &i32| *pid > 0);
    pid.map(i32::unsigned_abs).ok_or("accepted: the number of a process, 1 or more")
}

/// A running process that may publish statistics.
#[derive(Debug)]
pub struct Process {
    who: Who,
    own_pid: u32,
    user: u32,
    /// A time on `CLOCK_MONOTONIC` at which the process began, or slightly earlier.
    began_ns: u64,
    /// Start time in clock ticks; a later process with the same number has another one.
    start_time: u64,
    files: process::Process,
}

impl Process {
    /// The process with this number, or the process of the thread with this number.
    ///
    /// # Errors
    /// `NoProcess`, `Ended`.
    pub fn new(pid: u32) -> Result<Self, Problem> {
        let missing = |_| Problem::NoProcess(pid);
        let number = i32::try_from(pid).map_err(|_| Problem::NoProcess(pid))?;
        let files = process::Process::new(number).map_err(missing)?;
        let (status, stat) = (files.status().map_err(missing)?, files.stat().map_err(missing)?);
        let leader = status.tgid.unsigned_abs();
        if leader != pid {
            return Self::new(leader);
        }
        let who = Who { pid, name: Label::from(status.name.as_str()) };
        if matches!(stat.state, 'Z' | 'X') {
            return Err(Problem::Ended(who));
        }
        let own_pid = status.nspid.and_then(|all| all.last().copied());
        let began_ns = clock::began_ns(stat.starttime, procfs::ticks_per_second());
        Ok(Self {
            who,
            own_pid: own_pid.map_or(pid, i32::unsigned_abs),
            user: status.euid,
            began_ns,
            start_time: stat.starttime,
            files,
        })
    }

    /// Its number and name.
    #[must_use]
    pub fn who(&self) -> &Who {
        &self.who
    }

    /// Returns whether the process still runs and its number was not reused.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.files
            .stat()
            .is_ok_and(|stat| stat.starttime == self.start_time && !matches!(stat.state, 'Z' | 'X'))
    }

    /// The last published figures.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn read(&self) -> Result<Snapshot, Problem> {
        let mut refusal = None;
        for page in self.pages()? {
            match self.figures(&page) {
                Ok(snapshot) => return Ok(snapshot),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        match refusal {
            _ if !self.is_alive() => Err(Problem::Ended(self.who.clone())),
            Some(refusal) => Err(self.refused(refusal)),
            None => self.mapped_page_or_reason(),
        }
    }

    /// The memfd of the process's page, and the offset in it of the process's record. `None` if the
    /// process has closed the descriptor, or has not published yet.
    ///
    /// # Errors
    /// See [`Problem`].
    pub fn shared_record(&self) -> Result<Option<(File, usize)>, Problem> {
        let records = self.pages()?.into_iter().filter_map(|page| {
            let at = page.record_at(self.own_pid, self.began_ns)?;
            Some((page.file, at))
        });
        Ok({ records }.next())
    }

    /// The name of its control group: the last folder of the group's path.
    #[must_use]
    pub fn group(&self) -> Option<Label> {
        Path::new(&self.group_path()?).file_name()?.to_str().map(Label::from)
    }

    /// The path of its control group: in the only hierarchy of version 2; where that is not in use,
    /// in systemd's of version 1, or in that which limits memory.
    fn group_path(&self) -> Option<String> {
        let groups = self.files.cgroups().ok()?;
        let has =
            |wanted: &str| groups.0.iter().find(|it| it.controllers.iter().any(|of| of == wanted));
        let only = groups.0.iter().find(|it| it.hierarchy == 0);
        let all = [only, has("name=systemd"), has("memory")].into_iter().flatten();
        let paths = all.map(|it| it.pathname.clone());
        paths.reduce(|one, other| if one == "/" { other } else { one })
    }

    /// Its resident bytes, as the kernel counts them.
    #[must_use]
    pub fn resident(&self) -> Option<u64> {
        self.files.statm().ok().map(|memory| memory.resident.saturating_mul(procfs::page_size()))
    }

    fn figures(&self, page: &Page) -> Result<Snapshot, Refusal> {
        let Who { pid, name } = &self.who;
        let mut snapshot = page.of_process(*pid, self.own_pid, name, self.began_ns)?;
        snapshot.resident = self.resident();
        snapshot.process.place =
            self.group_path().map_or_else(Place::default, |it| Place::of_group(&it));
        if let Some(bytes) = snapshot.resident {
            from_record::add_resident(&mut snapshot.json, bytes);
        }
        Ok(snapshot)
    }

    /// Its number in its own pid namespace.
    #[must_use]
    pub fn own_pid(&self) -> u32 {
        self.own_pid
    }

    /// The process's open files that may be its page: any memfd can have the page's name.
    fn pages(&self) -> Result<Vec<Page>, Problem> {
        let folder = self.folder().join("fd");
        let entries = fs::read_dir(&folder).map_err(|error| self.denied(&error))?;
        let descriptors = entries.flatten().map(|entry| entry.path()).filter(|path| {
            let number = path.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok());
            number.is_some_and(|number| number >= LEAST_DESCRIPTOR)
        });
        let mut pages = Vec::new();
        for path in descriptors {
            match fs::read_link(&path) {
                Ok(target) if is_name_of_page(&target) => pages.extend(open(&path)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(self.denied(&error));
                }
                _ => {}
            }
        }
        Ok(pages)
    }

    fn folder(&self) -> PathBuf {
        Path::new("/proc").join(self.who.pid.to_string())
    }

    /// If no descriptor leads to the page: reads it through a mapping, or returns why that fails.
    fn mapped_page_or_reason(&self) -> Result<Snapshot, Problem> {
        let process = self.who.clone();
        let maps = self.files.maps().map_err(|error| match error {
            ProcError::PermissionDenied(_) => self.denied(&io::ErrorKind::PermissionDenied.into()),
            _ if !self.is_alive() => Problem::Ended(process.clone()),
            other => Problem::Proc(process.clone(), other.to_string()),
        })?;
        let path_of = |map: &MemoryMap| match &map.pathname {
            MMapPath::Path(path) => Some(path.clone()),
            _ => None,
        };
        let Some(map) = maps.iter().find(|map| path_of(map).is_some_and(|it| is_name_of_page(&it)))
        else {
            let is_library = |path: &Path| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                name.starts_with("libquarry") && name.contains(".so")
            };
            let has_library = maps.iter().filter_map(path_of).any(|path| is_library(&path));
            let problem = if has_library { Problem::NoPage } else { Problem::NoQuarry };
            return Err(problem(process));
        };
        let (from, to) = map.address;
        let path = self.folder().join(format!("map_files/{from:x}-{to:x}"));
        let page = open(&path).ok_or(Problem::Closed(process))?;
        self.figures(&page).map_err(|it| self.refused(it))
    }

    fn refused(&self, refusal: Refusal) -> Problem {
        let process = self.who.clone();
        match refusal {
            Refusal::Unreadable(error) => Problem::Proc(process, error.to_string()),
            Refusal::NoRecord => Problem::NoRecord(process),
            Refusal::Record(RecordError::Blank | RecordError::Unpublished { .. }) => {
                Problem::Silent(process, self.resident().unwrap_or(0))
            }
            Refusal::Record(RecordError::OtherVersion { version }) => {
                Problem::OtherVersion(process, version)
            }
            Refusal::Record(error) => Problem::Record(process, error),
        }
    }

    /// The reason why the kernel refuses to list the process's files.
    fn denied(&self, error: &io::Error) -> Problem {
        let process = self.who.clone();
        let reader = nix::unistd::geteuid();
        match error.kind() {
            _ if !self.is_alive() => Problem::Ended(process),
            io::ErrorKind::PermissionDenied if reader.is_root() => Problem::NoCapability(process),
            io::ErrorKind::PermissionDenied if reader.as_raw() == self.user => {
                Problem::NotDumpable(process)
            }
            io::ErrorKind::PermissionDenied => Problem::OtherUser(process, self.user),
            _ => Problem::Proc(process, error.to_string()),
        }
    }
}

pub(crate) fn is_name_of_page(target: &Path) -> bool {
    let name = MEMFD_NAME.to_str().unwrap_or_default();
    let target = target.to_str().and_then(|it| it.strip_prefix("/memfd:")?.strip_prefix(name));
    target.is_some_and(|rest| matches!(rest, "" | " (deleted)"))
}

/// Opens a link in `/proc` if it leads to a file that can hold a page; the process may have put
/// another kind of file there.
fn open(link: &Path) -> Option<Page> {
    let file = quarry_wary::open(link).ok()?;
    is_page(&file).then_some(Page { file, start: 0 })
}

pub(crate) fn is_page(file: &File) -> bool {
    file.metadata().is_ok_and(|it| it.is_file() && it.size() == PAGE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_by_its_name() {
        let is_name = |name: &str| is_name_of_page(Path::new(name));
        assert!(is_name("/memfd:quarry-record (deleted)"));
        assert!(!is_name("/memfd:quarry-records (deleted)"));
        assert!(!is_name("quarry-record (deleted)"));
        assert!(!is_name("/dev/null"));
    }

    #[test]
    fn a_process_that_is_not_on_quarry_says_so() {
        let own = Process::new(std::process::id()).unwrap();
        assert!(own.is_alive());
        let problem = own.read().unwrap_err();
        assert!(matches!(problem, Problem::NoQuarry(_)), "{problem}");
        assert!(problem.to_string().contains("quarry run -- COMMAND"));
        assert!(matches!(Process::new(u32::MAX), Err(Problem::NoProcess(_))));
    }
}
