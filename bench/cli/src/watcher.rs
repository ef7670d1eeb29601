//! The watcher, which prints statistics for `quarry run --stats` after the program has ended.
//!
//! `quarry run` becomes the program, which therefore keeps its process number, parent, terminal,
//! control group, exit status and signals. So another process must outlive the program: this
//! watcher. It is not a child of the program: its parent has ended, and init or a subreaper has
//! adopted it. It leads its own session, so no signal from the terminal or to a process group
//! reaches it. It waits for the program's end by a pidfd, and receives pages of processes at a
//! socket. Two executions of this command start it, not `fork`, so no step needs unsafe code.

use anyhow::{Context, Result};
use nix::sys::signal::SigSet;
use nix::unistd::{chdir, close, setsid};
use quarry_live::{Family, farewell};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::fs::OpenOptions;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};

pub(crate) const WATCH_COMMAND: &str = "watch-statistics";

/// Names the socket for the library; see `malloc/quarry/src/settings.rs`.
pub(crate) const SOCKET_VARIABLE: &str = "QUARRYRUN_STATS";

const FORMAT_VARIABLE: &str = "QUARRY_STATS_FORMAT";

/// Starts a watcher of this process. The watcher prints to `target`: `1` is standard error, any
/// other text names a file. `format` is `STATS_FORMAT` of `--set`; `None`: the environment's.
/// Returns the name of the watcher's socket; `None` in the first process of a container, because no
/// other process outlives that one.
pub(crate) fn start(target: &str, format: Option<&str>) -> Result<Option<String>> {
    if getpid().is_init() {
        return Ok(None);
    }
    let random = RandomState::new().build_hasher().finish();
    let name = format!("quarry-{}-{random:016x}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let program = pidfd_open(getpid(), PidfdFlags::empty())?;
    let format = format.map(|format| (FORMAT_VARIABLE, format));
    let status = itself(WATCH_COMMAND)
        .arg(target)
        .envs(format)
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::from(program))
        .status()?;
    status.success().then_some(Some(name)).context("the watcher did not start")
}

/// A command that runs `verb` of this executable, without preloaded libraries.
pub(crate) fn itself(verb: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(verb).env_remove("LD_PRELOAD");
    command
}

/// Waits for a program whose pidfd is standard output, with a socket as standard input.
#[derive(clap::Args)]
pub(crate) struct WatchArgs {
    /// Where to print: 1 for standard error, or a file.
    target: String,
    /// The program's number.
    #[arg(long)]
    root: Option<u32>,
}

/// The first execution starts the second one and ends; the second one is the watcher.
pub(crate) fn run(args: &WatchArgs) -> Result<()> {
    let Some(root) = args.root else {
        let root = nix::unistd::getppid().to_string();
        itself(WATCH_COMMAND).args([&args.target, "--root", &root]).spawn()?;
        return Ok(());
    };
    leave_everything()?;
    let mut family = Family::default();
    family.wait(rustix::stdio::stdin(), rustix::stdio::stdout())?;
    let target = file_name(&args.target, root);
    let format = std::env::var(FORMAT_VARIABLE);
    let is_json = format.map_or_else(|_| target.ends_with(".json"), |it| it == "json");
    let text = match is_json {
        true => farewell::json(&family.figures()),
        false => farewell::text(root, &family.figures()).unwrap_or_default(),
    };
    if text.is_empty() {
        return Ok(());
    }
    write(&target, &text).with_context(|| format!("--stats={target}"))
}

/// Expands a pattern for a file name: `%p` is the number of the process, and `%%` is `%`.
fn file_name(pattern: &str, pid: u32) -> String {
    let parts = pattern.split("%%").map(|part| part.replace("%p", &pid.to_string()));
    parts.collect::<Vec<_>>().join("%")
}

/// Returns whether the library accepts a pattern: after `%` only `p` and `%` may follow.
pub(crate) fn is_file_name(pattern: &str) -> bool {
    let mut letters = pattern.split("%%").flat_map(|part| part.split('%').skip(1));
    letters.all(|rest| rest.starts_with('p'))
}

/// Leaves the program's session, folder and files. This process keeps only its standard streams.
pub(crate) fn leave_everything() -> Result<()> {
    SigSet::all().thread_block()?;
    setsid()?;
    chdir("/")?;
    let entries = std::fs::read_dir("/proc/self/fd")?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers: Vec<i32> = numbers.filter(|number| *number > 2).collect();
    numbers.into_iter().for_each(|number| close(number).unwrap_or_default());
    Ok(())
}

/// Appends to a file as the library does, without making folders or following links.
fn write(target: &str, text: &str) -> io::Result<()> {
    if target == "1" {
        return io::stderr().write_all(text.as_bytes());
    }
    let wary = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    let mut file =
        OpenOptions::new().append(true).create(true).mode(0o644).custom_flags(wary).open(target)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{file_name, is_file_name};

    #[test]
    fn a_file_has_the_name_that_the_library_gives_it() {
        assert_eq!(file_name("1", 42), "1");
        assert_eq!(file_name("a-%p.json", 42), "a-42.json");
        assert_eq!(file_name("%%p-%%%p-%%%%p", 42), "%p-%42-%%p");
        for (pattern, is_one) in [("1", true), ("%p%%%p", true), ("%%q", true), ("%q", false)] {
            assert_eq!(is_file_name(pattern), is_one, "{pattern}");
        }
        assert!(!is_file_name("%%%") && !is_file_name("a%"));
    }
}
