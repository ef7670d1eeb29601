//! The reasons why a process has no statistics, with remedies.

use crate::label::Label;
use quarry_record::{RecordError, VERSION};
use std::path::PathBuf;
use std::{fmt, io};
use thiserror::Error;

/// Maximum number of processes that a message names.
const MOST_NAMED: usize = 8;
const NO_QUARRY: &str = "no process that this user may look at runs on Quarry: start one by \
                         `quarry run -- COMMAND`, or ask as root; `quarry ps` lists them";
const NO_MATCH: &str = "no process on Quarry has this name or control group";

/// The reason why the statistics of a process cannot be read; prints as one line with a remedy.
#[derive(Debug, Error)]
pub enum Problem {
    /// No process has this number, or `/proc` hides it.
    #[error(
        "no process {0} here; if it exists, /proc hides it (hidepid): ask as its user or as root"
    )]
    NoProcess(u32),
    /// No process on Quarry matches these options; without options, none runs on Quarry at all.
    #[error("{}", match .0.as_str() {
        "" => NO_QUARRY.to_owned(),
        options => format!("{NO_MATCH}: {options}; `quarry ps` lists them"),
    })]
    NoneChosen(String),
    /// Several processes match these options, but the command needs one; the text adds a remedy.
    #[error(
        "several processes are on Quarry{}{}: {}; choose one by --pid {}{}",
        if .0.is_empty() { "" } else { " and match " }, .0, names(.1), .1[0].pid, .2
    )]
    SeveralChosen(String, Vec<Who>, &'static str),
    /// The process has ended.
    #[error("{0} has ended")]
    Ended(Who),
    /// The process belongs to another user; the number is that of its effective user.
    #[error("{0} belongs to user {1}: ask as that user (sudo -u '#{1}') or as root")]
    OtherUser(Who, u32),
    /// The process belongs to the reader's user, but is not dumpable, so the kernel refuses access.
    #[error(
        "{0} is not dumpable (it changed its user, or asked for it by prctl), so the kernel shows \
         its files to root only: ask as root (sudo)"
    )]
    NotDumpable(Who),
    /// The reader is root without the capability to examine other processes.
    #[error(
        "{0} may not be looked at: root lacks CAP_SYS_PTRACE here; in a container ask as the user \
         of the process, or add the capability"
    )]
    NoCapability(Who),
    /// The process has no code of Quarry.
    #[error(
        "{0} does not run on Quarry: start it by `quarry run -- COMMAND`, or link the crate quarry \
         (a small program that has it shows nothing in its first 25 ms)"
    )]
    NoQuarry(Who),
    /// The process has loaded the library, but publishes no statistics.
    #[error(
        "{0} has Quarry loaded and publishes nothing: it is small and has asked for little since \
         its first 25 ms (QUARRY_RECORD=live shows it all the time), QUARRY_DISABLE=1 or \
         QUARRY_RECORD=0 is set, or the system refused the memory"
    )]
    NoPage(Who),
    /// The process has closed its page's descriptor, or the number now belongs to another file.
    #[error(
        "{0} has closed the descriptor of its statistics, or another file has its number: root \
         finds them by /proc/{pid}/map_files, so ask as root (sudo)",
        pid = .0.pid
    )]
    Closed(Who),
    /// The page has no record of the process.
    #[error(
        "{0} has no record in its statistics: it was forked off and has not asked for memory \
         since, or there are more processes than records; ask for its parent"
    )]
    NoRecord(Who),
    /// The process has published nothing yet; the kernel counts this many resident bytes of it.
    #[error(
        "{0} has {mib:.1} MiB in memory, and has published nothing yet: it does when it next asks \
         Quarry for memory on a slow path, which a process that is idle from its start on never \
         does; start it with QUARRY_RECORD=live to see it all the time",
        mib = *.1 as f64 / f64::from(1 << 20)
    )]
    Silent(Who, u64),
    /// The process publishes the layout of this version, which is not the reader's.
    #[error(
        "{0} publishes layout {1}, and this command reads layout {VERSION}: use the command \
         `quarry` that came with its library"
    )]
    OtherVersion(Who, u32),
    /// The record of the process is unusable.
    #[error("the record of {0} {1}; try again")]
    Record(Who, RecordError),
    /// A file of `/proc` cannot be read for another reason, which this error of the system tells.
    #[error("{0}: {1}")]
    Proc(Who, String),
    /// A core dump cannot be used.
    #[error("{file}: {1}", file = .0.display())]
    Core(PathBuf, CoreProblem),
}

/// The fault of a core dump.
#[derive(Debug, Error)]
pub enum CoreProblem {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// The file is not a core dump of a 64-bit process.
    #[error("not a core dump of a 64-bit process")]
    NotACore,
    /// The dump's list of mapped files has no statistics page of Quarry.
    #[error("no mapping of Quarry's statistics in it: the process did not run on Quarry")]
    NoPage,
    /// The dump does not include the page's memory.
    #[error(
        "the statistics were left out of it: shared memory is dumped where bit 1 of \
         /proc/PID/coredump_filter is set, as it is by default"
    )]
    LeftOut,
    /// The page has the layout of this version, which is not the reader's.
    #[error(
        "it holds layout {0}, and this command reads layout {VERSION}: use the command `quarry` \
         that came with its library"
    )]
    OtherVersion(u32),
    /// The page has no readable record.
    #[error("its record {0}")]
    Record(RecordError),
}

impl From<RecordError> for CoreProblem {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::OtherVersion { version } => Self::OtherVersion(version),
            error => Self::Record(error),
        }
    }
}

/// A process, by number and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// Its number in the reader's pid namespace.
    pub pid: u32,
    /// Its name in the kernel.
    pub name: Label,
}

impl fmt::Display for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}[{}]", self.name, self.pid)
    }
}

impl Problem {
    /// Returns whether another user, or one with more rights, could read the process.
    #[must_use]
    pub fn is_of_rights(&self) -> bool {
        matches!(self, Self::OtherUser(..) | Self::NotDumpable(_) | Self::NoCapability(_))
    }

    /// Returns whether the problem may vanish by itself when the process publishes.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoPage(_) | Self::NoRecord(_) | Self::Silent(..) => true,
            Self::Record(_, error) => !matches!(error, RecordError::Malformed),
            _ => false,
        }
    }
}

fn names(processes: &[Who]) -> String {
    let names = processes.iter().take(MOST_NAMED).map(ToString::to_string);
    let more = processes.len().checked_sub(MOST_NAMED + 1).map(|it| it + 1);
    let more = more.map(|more| format!("{more} more (`quarry ps` lists them)"));
    names.chain(more).collect::<Vec<_>>().join(", ")
}
