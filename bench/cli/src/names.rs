//! `quarry names`: adds functions and lines to the call stacks in reports of the checks.
//!
//! The library does not look up names, because a look-up takes locks of the loader. So `quarry run`
//! passes the standard error of a program under `QUARRY_DEBUG` or `QUARRY_GUARD` to this command.

use crate::watcher::{itself, leave_everything};
use anyhow::{Context, Result};
use quarry_profile::{Files, Line};
use rustix::process::getpid;
use std::io::{self, Read, Write, pipe};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

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
}

/// Passes the standard error of a program through this command, which runs in another process. Does
/// nothing in the first process of a container, because at its end the kernel kills all the others.
pub(crate) fn name_callers_of(program: &mut Command) -> Result<()> {
    if getpid().is_init() {
        return Ok(());
    }
    let (reader, writer) = pipe()?;
    let error = io::stderr().as_fd().try_clone_to_owned()?;
    let status = itself("names").arg("--apart").stdin(reader).stdout(error).status()?;
    status.success().then_some(()).context("the process that names callers did not start")?;
    program.stderr(writer);
    Ok(())
}

pub(crate) fn run(args: &NamesArgs, out: &mut dyn Write) -> Result<()> {
    if args.apart {
        // This process ends now, so init adopts the copying one: the program gets no unknown child.
        itself("names").stderr(Stdio::null()).env("QUARRYRUN_NAMES", "1").spawn()?;
        return Ok(());
    }
    if std::env::var_os("QUARRYRUN_NAMES").is_some() {
        leave_everything()?;
    }
    copy(&mut io::stdin().lock(), out)
}

/// Copies input at once when it comes, and adds names at the ends of lines.
fn copy(input: &mut dyn Read, out: &mut dyn Write) -> Result<()> {
    let (mut files, mut line, mut bytes) = (Files::default(), Vec::new(), [0; 4096]);
    loop {
        let read = match input.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Ok(());
        }
        for part in bytes[..read].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            match part.strip_suffix(b"\n") {
                None => out.write_all(part)?,
                Some(rest) => {
                    out.write_all(rest)?;
                    writeln!(out, "{}", names(&line, &mut files))?;
                    line.clear();
                }
            }
        }
        out.flush()?;
    }
}

/// The functions of a line of a call stack, the innermost one first.
fn names(line: &[u8], files: &mut Files) -> String {
    let Some((file, offset)) = std::str::from_utf8(line).ok().and_then(place) else {
        return String::new();
    };
    // The address in a call stack is the return address, which lies after the call.
    let lines = files.lines(Path::new(file), offset.saturating_sub(1));
    lines.iter().map(Line::text).map(|it| format!(" {it}")).collect()
}

/// The file and the offset of `quarry:     #0 0x5637be78429d (/usr/bin/program+0x229d)`.
fn place(line: &str) -> Option<(&str, u64)> {
    let (number, place) = line.trim_end().strip_suffix(')')?.split_once(" (")?;
    let is_caller = number.contains("quarry:") && number.contains(" #");
    let (file, offset) = place.rsplit_once("+0x")?;
    let offset = u64::from_str_radix(offset, 16).ok()?;
    is_caller.then_some((file, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_callers_are_named_and_every_byte_is_copied() {
        assert_eq!(place("quarry:     #0 0x5 (/a (b)+0x1f)\n"), Some(("/a (b)", 31)));
        assert_eq!(place("x: quarry:     #12 0x5 (/a+0x1f)"), Some(("/a", 31)), "a log's line");
        for other in ["", "quarry: free(0x1)", "#0 0x5 (/a+0x1f)", "quarry: #0 0x5 (/a+0xz)"] {
            assert_eq!(place(other), None, "{other}");
        }
        let text = b"a\n\xff\nquarry:   #0 0x1 (/no/such+0x1)\nno end";
        let mut copied = Vec::new();
        copy(&mut &text[..], &mut copied).unwrap();
        assert_eq!(copied, text);
    }
}
