//! The standard input of a program's runs: every run reads the same, from its beginning.
//!
//! Each run opens a file anew. A pipe or socket is first copied to a nameless file. A terminal
//! counts as empty, because a person cannot type the same for every run.

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quarry_harness::destination;
use quarry_harness::results::Stdin;
use quarry_harness::usage::Usage;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Maximum number of bytes that are kept of a pipe or socket: they fit a small machine's `/tmp`.
const MOST_BYTES: u64 = 1 << 30;
/// Time after which the command prints what it waits for.
const PATIENCE_MS: u16 = 1000;

/// The remark where every run reads nothing.
pub(super) const EMPTY_INPUT: &str = "standard input is empty, so a run that reads it gets \
                                      nothing; a pipe, < FILE or --input FILE gives every run the \
                                      same";

/// The input of all runs, which must live as long as the runs do.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub(super) path: Option<PathBuf>,
    /// Keeps the file open if `path` leads through `/proc` of this process.
    _kept: Option<File>,
    /// The description for readers of results.
    pub(super) said: Stdin,
    /// True if a run that reads it gets nothing.
    pub(super) is_empty: bool,
}

impl Input {
    /// Takes the file `named`, else standard input. An unreadable or too long input is an error of
    /// usage.
    pub(super) fn find(named: Option<&Path>) -> Result<Self> {
        let Some(path) = named else {
            let stdin = io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
            return Self::of(File::from(stdin), "standard input", MOST_BYTES);
        };
        let name = format!("--input {}", path.display());
        match File::open(path) {
            Ok(file) => Self::of(file, &name, MOST_BYTES),
            Err(error) => {
                bail!(Usage(format!("{name}: {error}; accepted: a file that can be read")))
            }
        }
    }

    fn of(file: File, name: &str, most: u64) -> Result<Self> {
        let kind = file.metadata().with_context(|| name.to_owned())?.file_type();
        if kind.is_dir() {
            bail!(Usage(format!("{name}: a directory; accepted: a file that can be read")));
        }
        if file.is_terminal() {
            return Ok(Self { is_empty: true, ..Self::default() });
        }
        // Opening a pipe again waits for a writer.
        let is_read_once = kind.is_fifo() || kind.is_socket();
        // The user may not be able to open a file that is open as standard input.
        let own_path = fs::read_link(way_to(&file)).unwrap_or_default();
        let file = match is_read_once || File::open(way_to(&file)).is_err() {
            true => kept(file, name, most)?,
            false => file,
        };
        let bytes = file.metadata().with_context(|| name.to_owned())?.len();
        let said = match is_read_once {
            true => Stdin::Pipe { bytes },
            false if own_path == Path::new("/dev/null") => Stdin::Nothing,
            false => Stdin::file(&own_path, bytes),
        };
        let path = way_to(&file);
        // A file of /proc has bytes although its length is 0; a device is not read for nothing.
        let has_byte =
            || File::open(&path).and_then(|mut it| it.read(&mut [0])).is_ok_and(|it| it > 0);
        let is_file = is_read_once || kind.is_file();
        let is_empty = said == Stdin::Nothing || (is_file && bytes == 0 && !has_byte());
        Ok(Self { path: Some(path), _kept: Some(file), said, is_empty })
    }
}

/// The path by which a run opens a file of this process, even a nameless one, at its first byte.
fn way_to(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

fn kept(from: File, name: &str, most: u64) -> Result<File> {
    let cannot = || format!("{name}: cannot be kept in {}", std::env::temp_dir().display());
    announce(&from, name);
    let mut file = tempfile::tempfile().map_err(|error| destination::no_temporary(&error))?;
    let bytes = io::copy(&mut from.take(most + 1), &mut file).with_context(cannot)?;
    if bytes > most {
        bail!(Usage(format!(
            "{name}: more than {most} bytes, which every run would have to be given again; \
             accepted: --input FILE with a file that is not a pipe"
        )));
    }
    file.rewind().with_context(cannot)?;
    Ok(file)
}

fn announce(from: &File, name: &str) {
    let mut events = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
    if poll(&mut events, PollTimeout::from(PATIENCE_MS)) == Ok(0) {
        let _ = writeln!(
            io::stderr(),
            "quarry compare: waiting for {name} to end, which every run is to read; < /dev/null \
             gives them none"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    fn pipe_with(text: &str) -> File {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        File::from(OwnedFd::from(reader))
    }

    fn read_twice(input: &Input) -> [String; 2] {
        [(); 2].map(|()| fs::read_to_string(input.path.as_ref().unwrap()).unwrap())
    }

    #[test]
    fn every_run_reads_a_pipe_from_its_beginning() {
        let input = Input::of(pipe_with("one\ntwo\n"), "x", 8).unwrap();
        assert_eq!(read_twice(&input), ["one\ntwo\n"; 2]);
        assert!(!input.is_empty);
        let input = Input::of(pipe_with(""), "x", 8).unwrap();
        assert!(input.is_empty);
        assert_eq!(read_twice(&input), [""; 2]);
    }

    #[test]
    fn what_is_too_long_to_be_kept_is_refused() {
        let error = Input::of(pipe_with("123456789"), "standard input", 8).unwrap_err();
        assert!(Usage::is_cause_of(&error), "{error}");
        let error = error.to_string();
        assert!(error.starts_with("standard input: more than 8 bytes"), "{error}");
        assert!(error.contains("accepted: --input FILE"), "{error}");
    }

    #[test]
    fn a_file_is_read_from_its_beginning_wherever_it_has_been_read_to() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"all of it").unwrap();
        let input = Input::of(file, "x", 0).unwrap();
        assert_eq!(read_twice(&input), ["all of it"; 2]);
    }

    /// The controlling end of a terminal is a terminal as well.
    #[test]
    fn a_terminal_gives_nothing() {
        let terminal = File::options().read(true).write(true).open("/dev/ptmx").unwrap();
        assert_eq!(Input::of(terminal, "x", 8).unwrap().path, None);
        let nothing = Input::of(File::open("/dev/null").unwrap(), "x", 8).unwrap();
        assert_eq!(read_twice(&nothing), [""; 2]);
        assert!(nothing.is_empty);
        let of = |path: &str| Input::of(File::open(path).unwrap(), "x", 8).unwrap().is_empty;
        assert!(!of("/proc/self/stat") && !of("/dev/zero"), "they have no length");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for place in ["/no/such", "/"] {
            let error = Input::find(Some(Path::new(place))).unwrap_err();
            assert!(Usage::is_cause_of(&error), "{error}");
            assert!(error.to_string().starts_with(&format!("--input {place}: ")), "{error}");
        }
    }
}
