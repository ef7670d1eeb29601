//! `quarry names`: adds functions and lines to the call stacks in reports of the checks.
//!
//! The library does not look up names, because a look-up takes locks of the loader. So `quarry run`
//! passes the standard error of a program under `QUARRY_DEBUG` or `QUARRY_GUARD` to this command.
//! The program may write anything there, and must neither wait for this command nor lose its
//! reader. So a line is answered only with the mark that the library has from `quarry run`
//! (`warn_reader` of `malloc/sys/src/report.rs`), and the process that copies opens no file and
//! parses none: it asks another one, and copies on without the names if these take long.

mod asked;
mod copy;

use crate::watcher::{itself, leave_everything};
use anyhow::{Context, Result};
use asked::{Asked, Hurry};
use copy::Copier;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quarry_profile::{Files, Line};
use rustix::process::getpid;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, ErrorKind, Read, Write, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

/// Tells the library of the reader of standard error; see `malloc/sys/src/report.rs`.
const READER_VARIABLE: &str = "QUARRYRUN_READER";
/// Tells the process that copies the secret number of the library's mark.
const SECRET_VARIABLE: &str = "QUARRYRUN_NAMES";

/// Beginning of each line of the library.
const LIBRARY: &str = "quarry: ";
/// Most bytes that are read at a time, and how many such pieces wait for names.
const PIECE_BYTES: usize = 16 << 10;
const MOST_PIECES: usize = 1024;

/// Name the functions, files and lines of the call stacks in a report of Quarry's checks.
///
/// Copies standard input to standard output, and adds names to lines such as `#0 0x5637be78429d
/// (/usr/bin/program+0x229d)`: `journalctl -u redis | quarry names`. `quarry run` does so itself
/// under QUARRY_DEBUG and QUARRY_GUARD, not under QUARRY_HARDEN alone. It needs the file's symbols.
#[derive(clap::Args)]
pub(crate) struct NamesArgs {
    /// Copy in another process that outlives this one.
    #[arg(long, hide = true)]
    apart: bool,
    /// Answer each line with its names.
    #[arg(long, hide = true)]
    answer: bool,
}

/// Passes the standard error of a program through this command, which runs in another process. Does
/// nothing in the first process of a container, because at its end the kernel kills all the others.
pub(crate) fn name_callers_of(program: &mut Command) -> Result<()> {
    if getpid().is_init() {
        return Ok(());
    }
    let (reader, writer) = pipe()?;
    let error = io::stderr().as_fd().try_clone_to_owned()?;
    let secret = format!("{:016x}", RandomState::new().build_hasher().finish());
    let inode = File::from(OwnedFd::from(writer.try_clone()?)).metadata()?.ino();
    let mut names = itself("names");
    names.arg("--apart").env(SECRET_VARIABLE, &secret).stdin(reader).stdout(error);
    let status = names.status()?;
    status.success().then_some(()).context("the process that names callers did not start")?;
    program.env(READER_VARIABLE, format!("{inode:x}-{secret}")).stderr(writer);
    Ok(())
}

pub(crate) fn run(args: &NamesArgs, out: &mut dyn Write) -> Result<()> {
    if args.answer {
        return answer(&mut io::stdin().lock(), out);
    }
    if args.apart {
        // This process ends now, so init adopts the copying one: the program gets no unknown child.
        itself("names").stderr(Stdio::null()).spawn()?;
        return Ok(());
    }
    let secret = std::env::var(SECRET_VARIABLE).ok();
    if secret.is_some() {
        leave_everything()?;
    }
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    copy_input(secret.as_deref(), &mut Patient { out, is_for_program: secret.is_some() })?;
    Ok(())
}

/// Copies standard input at once when it comes, and adds names at the ends of lines.
fn copy_input(secret: Option<&str>, out: &mut impl Write) -> io::Result<()> {
    let mut asked = Asked::new(|| {
        let mut command = itself("names");
        command.arg("--answer");
        command
    });
    let (hurry, (sender, pieces)) = (asked.hurry(), sync_channel(MOST_PIECES));
    thread::spawn(move || read_ahead(&mut io::stdin(), &sender, &hurry));
    let mark = secret.map_or(LIBRARY.to_owned(), |secret| format!("\x1e{secret}"));
    let name = |line: &[u8]| place(line).map_or_else(String::new, |_| asked.ask(line));
    let mut copier = Copier::new(mark.into_bytes(), secret.is_none(), name);
    for piece in pieces {
        copier.copy(&piece?, out)?;
    }
    copier.end(out)
}

/// Reads input at once when it comes, so that the program does not wait while names are sought.
fn read_ahead(input: &mut impl Read, pieces: &SyncSender<io::Result<Vec<u8>>>, hurry: &Hurry) {
    let mut bytes = vec![0; PIECE_BYTES];
    loop {
        let piece = match input.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => Ok(bytes[..read].to_vec()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_end = piece.is_err();
        let sent = match pieces.try_send(piece) {
            Err(TrySendError::Full(piece)) => hurry.during(|| pieces.send(piece).is_ok()),
            sent => sent.is_ok(),
        };
        if is_end || !sent {
            return;
        }
    }
}

/// An output that may be the program's standard error: a terminal or a pipe that is full, whether
/// or not writing to it waits, or a file that takes no more.
struct Patient {
    out: File,
    is_for_program: bool,
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.out.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    poll(
                        &mut [PollFd::new(self.out.as_fd(), PollFlags::POLLOUT)],
                        PollTimeout::NONE,
                    )?;
                }
                // Without a reader the program itself would get SIGPIPE; after any other error it
                // could go on, so this process must go on reading.
                Err(error) if self.is_for_program && error.kind() != ErrorKind::BrokenPipe => {
                    return Ok(bytes.len());
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Answers each line of standard input by a line with its names.
fn answer(input: &mut impl BufRead, out: &mut dyn Write) -> Result<()> {
    // Where memory is short because of a file of the program, this process ends first.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let mut files = Files::default();
    for line in input.split(b'\n') {
        writeln!(out, "{}", names(&line?, &mut files))?;
        out.flush()?;
    }
    Ok(())
}

/// The functions of a line of a call stack, the innermost one first.
fn names(line: &[u8], files: &mut Files) -> String {
    let Some((file, offset)) = place(line) else { return String::new() };
    // The address in a call stack is the return address, which lies after the call.
    let lines = files.lines(&file, offset.saturating_sub(1));
    lines.iter().map(Line::text).map(|it| format!(" {it}")).collect()
}

/// The file and the offset of `quarry:     #0 0x5637be78429d (/usr/bin/program+0x229d)`.
fn place(line: &[u8]) -> Option<(PathBuf, u64)> {
    let line = line.strip_prefix(LIBRARY.as_bytes())?.trim_ascii();
    let start = line.windows(2).position(|it| it == b" (").filter(|_| line.starts_with(b"#"))?;
    let place = line[start + 2..].strip_suffix(b")")?;
    let end = place.windows(3).rposition(|it| it == b"+0x")?;
    let offset = u64::from_str_radix(std::str::from_utf8(&place[end + 3..]).ok()?, 16).ok()?;
    Some((OsString::from_vec(unescaped(&place[..end])).into(), offset))
}

/// The bytes of a path in which those that are no plain text are octal, as in `\012`.
fn unescaped(mut text: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len());
    while let Some((first, rest)) = text.split_first() {
        let digits = text.get(1..4).filter(|it| it.iter().all(u8::is_ascii_digit));
        let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
        let byte = digits.and_then(|it| u8::from_str_radix(it, 8).ok());
        match byte.filter(|it| *first == b'\\' && !matches!(it, b' '..=b'~')) {
            Some(byte) => {
                path.push(byte);
                text = &text[4..];
            }
            None => {
                path.push(*first);
                text = rest;
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_caller_has_a_file_and_an_offset() {
        let place = |line: &str| place(line.as_bytes());
        let is = |path: &str, offset| Some((Path::new(path).to_owned(), offset));
        assert_eq!(place("quarry:     #0 0x5 (/a (b)+0x1f)"), is("/a (b)", 31));
        assert_eq!(place("quarry:     #12 0x5 (/a+0x1+0x1f)\r"), is("/a+0x1", 31));
        assert_eq!(place("quarry: #0 0x5 (/a\\033\\101b+0x0)"), is("/a\x1b\\101b", 0));
        for other in ["", "quarry: free(0x1)", "#0 0x5 (/a+0x1f)", "quarry: #0 0x5 (/a+0xz)"] {
            assert_eq!(place(other), None, "{other}");
        }
        assert_eq!(unescaped(b"gr\\366\\337e\\8\\"), b"gr\xf6\xdfe\\8\\");
    }

    #[test]
    fn an_output_that_takes_no_more_ends_no_program() {
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let write = |is_for_program| Patient { out: full(), is_for_program }.write_all(b"text");
        assert!(write(false).is_err() && write(true).is_ok());
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut closed = Patient { out: OwnedFd::from(writer).into(), is_for_program: true };
        assert_eq!(closed.write_all(b"text").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
