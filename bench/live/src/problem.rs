//! The reasons why a process has no statistics, with remedies.

use crate::label::Label;
use quarry_record::{RecordError, VERSION};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Most processes that a message names.
const MOST_NAMED: usize = 8;
const NO_QUARRY: &str = "no process that this user may look at runs on Quarry: start one by \
                         `quarry run -- COMMAND`, or ask as root; `quarry ps` lists them";
const NO_MATCH: &str =
    "no process on Quarry has this name or control group; `quarry ps` lists them";

/// The reason why the statistics of a process cannot be read; prints as one line with a remedy.
#[derive(Debug)]
pub enum Problem {
    /// No process has this number, or `/proc` hides it.
    NoProcess {
        /// The number.
        pid: u32,
    },
    /// No process runs on Quarry, or none that matches a name or a control group.
    NoneChosen {
        /// True if neither a name nor a control group was given.
        is_any: bool,
    },
    /// Several processes match, but the command is about one.
    SeveralChosen {
        /// The processes.
        processes: Vec<Who>,
    },
    /// The process has ended.
    Ended {
        /// The process.
        process: Who,
    },
    /// The process belongs to another user.
    OtherUser {
        /// The process.
        process: Who,
        /// Its effective user.
        user: u32,
    },
    /// The process belongs to the reader's user, but is not dumpable, so the kernel refuses access.
    NotDumpable {
        /// The process.
        process: Who,
    },
    /// The reader is root without the capability to examine other processes.
    NoCapability {
        /// The process.
        process: Who,
    },
    /// The process has no code of Quarry.
    NoQuarry {
        /// The process.
        process: Who,
    },
    /// The process has the library, but the library has not made a page yet.
    NoPage {
        /// The process.
        process: Who,
    },
    /// The process has closed its page's descriptor, or opened another file with that number.
    Closed {
        /// The process.
        process: Who,
    },
    /// The page has no record of the process.
    NoRecord {
        /// The process.
        process: Who,
    },
    /// The process has published no figures yet.
    Silent {
        /// The process.
        process: Who,
        /// Resident bytes of the process, as the kernel counts them.
        resident: u64,
    },
    /// The record of the process is unusable.
    Record {
        /// The process.
        process: Who,
        /// The error of the record.
        error: RecordError,
    },
    /// A file of `/proc` cannot be read for another reason.
    Proc {
        /// The process.
        process: Who,
        /// The error of the system.
        error: String,
    },
    /// A core dump cannot be used.
    Core {
        /// The file.
        file: PathBuf,
        /// The fault.
        why: CoreProblem,
    },
}

/// The fault of a core dump.
#[derive(Debug)]
pub enum CoreProblem {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The file is not a core dump of a 64-bit process.
    NotACore,
    /// The dump's list of mappings has no page of Quarry.
    NoPage,
    /// The dump does not include the page's memory.
    LeftOut,
    /// The page has no readable record.
    Record(RecordError),
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
    pub(crate) fn is_of_rights(&self) -> bool {
        matches!(
            self,
            Self::OtherUser { .. } | Self::NotDumpable { .. } | Self::NoCapability { .. }
        )
    }

    /// Returns whether the problem may vanish by itself when the process publishes.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoPage { .. } | Self::NoRecord { .. } | Self::Silent { .. } => true,
            Self::Record { error, .. } => {
                !matches!(error, RecordError::OtherVersion { .. } | RecordError::Malformed)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess { pid } => write!(
                out,
                "no process {pid} here; if it exists, /proc hides it (hidepid): ask as its user or \
                 as root"
            ),
            Self::NoneChosen { is_any } => {
                out.write_str(if *is_any { NO_QUARRY } else { NO_MATCH })
            }
            Self::SeveralChosen { processes } => several(processes, out),
            Self::Ended { process } => write!(out, "{process} has ended"),
            Self::OtherUser { process, user } => write!(
                out,
                "{process} belongs to user {user}: ask as that user (sudo -u '#{user}') or as root"
            ),
            Self::NotDumpable { process } => write!(
                out,
                "{process} is not dumpable (it changed its user, or asked for it by prctl), so the \
                 kernel shows its files to root only: ask as root (sudo)"
            ),
            Self::NoCapability { process } => write!(
                out,
                "{process} may not be looked at: root lacks CAP_SYS_PTRACE here; in a container \
                 ask as the user of the process, or add the capability"
            ),
            Self::NoQuarry { process } => write!(
                out,
                "{process} does not run on Quarry: start it by `quarry run -- COMMAND`, or link \
                 the crate quarry (a small program that has it shows nothing in its first 25 ms)"
            ),
            Self::NoPage { process } => write!(
                out,
                "{process} has Quarry loaded and publishes nothing: it is small and has asked for \
                 little since its first 25 ms (QUARRY_RECORD=live shows it all the time), \
                 QUARRY_DISABLE=1 or QUARRY_RECORD=0 is set, or the system refused the memory"
            ),
            Self::Closed { process } => write!(
                out,
                "{process} has closed the descriptor of its statistics, or another file has its \
                 number: root finds them by /proc/{}/map_files, so ask as root (sudo)",
                process.pid
            ),
            Self::NoRecord { process } => write!(
                out,
                "{process} has no record in its statistics: it was forked off and has not asked \
                 for memory since, or there are more processes than records; ask for its parent"
            ),
            Self::Silent { process, resident } => write!(
                out,
                "{process} has {:.1} MiB in memory, and has published nothing yet: it does when it \
                 next asks Quarry for memory on a slow path, which a process that is idle from its \
                 start on never does; start it with QUARRY_RECORD=live to see it all the time",
                *resident as f64 / f64::from(1 << 20)
            ),
            Self::Record { process, error: RecordError::OtherVersion { version } } => write!(
                out,
                "{process} publishes layout {version}, and this command reads layout {VERSION}: \
                 use the command `quarry` that came with its library"
            ),
            Self::Record { process, error } => {
                write!(out, "the record of {process} {error}; try again")
            }
            Self::Proc { process, error } => write!(out, "{process}: {error}"),
            Self::Core { file, why } => write!(out, "{}: {why}", file.display()),
        }
    }
}

fn several(processes: &[Who], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut names: Vec<_> = processes.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    if processes.len() > MOST_NAMED {
        names.push(format!("{} more", processes.len() - MOST_NAMED));
    }
    let names = names.join(", ");
    write!(out, "several processes are on Quarry: {names}; choose by --pid, or their sum by --name")
}

impl fmt::Display for CoreProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(out),
            Self::NotACore => out.write_str("not a core dump of a 64-bit process"),
            Self::NoPage => out.write_str(
                "no mapping of Quarry's statistics in it: the process did not run on Quarry",
            ),
            Self::LeftOut => out.write_str(
                "the statistics were left out of it: shared memory is dumped where bit 1 of \
                 /proc/PID/coredump_filter is set, as it is by default",
            ),
            Self::Record(RecordError::OtherVersion { version }) => write!(
                out,
                "it holds layout {version}, and this command reads layout {VERSION}: use the \
                 command `quarry` that came with its library"
            ),
            Self::Record(error) => write!(out, "its record {error}"),
        }
    }
}

impl std::error::Error for Problem {}
