//! Finds the file that a command line runs: by PATH, then by the `#!` lines.

use crate::exit_status::say;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
pub use quarry_compare::CommandLine;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Bytes of a file in which Linux looks for an interpreter (`BINPRM_BUF_SIZE`, Linux 5.1).
const SHEBANG_BYTES: u64 = 256;
/// Maximum number of interpreters that Linux follows in turn (`exec_binprm`, Linux 5.8).
const MAX_INTERPRETERS: usize = 5;
/// The folders that glibc's `execvp` searches if PATH is unset.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The reason why a command cannot run, as shells report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotRun {
    /// Exit status 127.
    NotFound,
    /// Exit status 126.
    NotExecutable,
}

impl CannotRun {
    /// The exit status with which shells report this reason (POSIX, "Exit Status for Commands").
    pub fn exit_status(self) -> i32 {
        match self {
            Self::NotFound => 127,
            Self::NotExecutable => 126,
        }
    }

    /// Tells the user; returns the exit status.
    pub fn told_of(self, command: &OsStr) -> i32 {
        let why = match self {
            Self::NotFound => "command not found",
            Self::NotExecutable => "not an executable file, or no permission to execute it",
        };
        let shell = if is_line(command) { remedy_of_line(command) } else { String::new() };
        say(format_args!("{}: {why}{shell}", command.display()));
        self.exit_status()
    }
}

/// Returns whether a word looks like a whole command line, which shells understand.
fn is_line(command: &OsStr) -> bool {
    command.as_bytes().iter().any(|byte| b" \t\n|&;<>".contains(byte))
}

fn remedy_of_line(command: &OsStr) -> String {
    let quoted = command.to_string_lossy().replace('\'', r"'\''");
    format!("; this is one word: for a command line say -- sh -c '{quoted}'")
}

/// The file that `command` names, as `execvp` finds it.
pub fn locate(command: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, CannotRun> {
    if command.is_empty() {
        return Err(CannotRun::NotFound);
    }
    if command.as_bytes().contains(&b'/') {
        return executable(PathBuf::from(command));
    }
    let mut failure = CannotRun::NotFound;
    for folder in std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH))) {
        match executable(folder.join(command)) {
            Ok(file) => return Ok(file),
            Err(CannotRun::NotExecutable) => failure = CannotRun::NotExecutable,
            Err(CannotRun::NotFound) => {}
        }
    }
    Err(failure)
}

fn executable(file: PathBuf) -> Result<PathBuf, CannotRun> {
    let metadata = fs::metadata(&file).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => CannotRun::NotExecutable,
        _ => CannotRun::NotFound,
    })?;
    let may_execute = faccessat(AT_FDCWD, &file, AccessFlags::X_OK, AtFlags::AT_EACCESS).is_ok();
    if metadata.is_file() && may_execute { Ok(file) } else { Err(CannotRun::NotExecutable) }
}

/// The file whose code runs in the end: `program` or, if it is a script, its interpreter, which may
/// be a script, too. An interpreter that cannot be read is returned as named.
pub fn interpreter_of(program: &Path, path: Option<&OsStr>) -> PathBuf {
    let mut current = program.to_owned();
    for _ in 0..MAX_INTERPRETERS {
        let Ok(bytes) = first_bytes(&current, SHEBANG_BYTES) else { break };
        match script_interpreter(&bytes, path) {
            Some(interpreter) => current = interpreter,
            None => break,
        }
    }
    current
}

/// Reads at most `most` bytes of a file.
pub fn first_bytes(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    quarry_wary::open(file)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The interpreter that a file's first bytes name; `None` for machine code.
fn script_interpreter(bytes: &[u8], path: Option<&OsStr>) -> Option<PathBuf> {
    if bytes.starts_with(b"\x7fELF") {
        return None;
    }
    let Some(rest) = bytes.strip_prefix(b"#!") else {
        // The kernel refuses such a file, and `execvp` then gives it to the shell.
        return (!bytes.contains(&0)).then(|| PathBuf::from("/bin/sh"));
    };
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let words: Vec<&[u8]> =
        line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty()).collect();
    let interpreter = PathBuf::from(OsString::from_vec(words.first()?.to_vec()));
    if interpreter.file_name() == Some(OsStr::new("env")) {
        let command =
            words[1..].iter().find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
        if let Some(found) = command.and_then(|word| locate(OsStr::from_bytes(word), path).ok()) {
            return Some(found);
        }
    }
    Some(interpreter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tells_missing_from_not_executable() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        let path = Some(folder.path().as_os_str());
        assert_eq!(locate(OsStr::new("tool"), path), Err(CannotRun::NotFound));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(locate(OsStr::new("tool"), path), Err(CannotRun::NotExecutable));
        assert_eq!(locate(file.as_os_str(), None), Err(CannotRun::NotExecutable));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(locate(OsStr::new("tool"), path), Ok(file));
        assert_eq!(locate(folder.path().as_os_str(), None), Err(CannotRun::NotExecutable));
        assert_eq!(locate(OsStr::new(""), path), Err(CannotRun::NotFound));
    }

    #[test]
    fn reads_shebang_lines() {
        let of = |text: &str| script_interpreter(text.as_bytes(), Some(OsStr::new("/bin")));
        assert_eq!(of("#!/usr/bin/python3 -u\n"), Some(PathBuf::from("/usr/bin/python3")));
        assert_eq!(of("#! \t/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(of("#!/usr/bin/env sh\n"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(of("#!/usr/bin/env -S A=1 sh -e\n"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(of("#!/usr/bin/env no-such-tool\n"), Some(PathBuf::from("/usr/bin/env")));
        assert_eq!(of("echo no shebang\n"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(of("\x7fELF\x02\x01"), None);
        assert_eq!(of("#!\n"), None);
    }

    #[test]
    fn follows_scripts_that_interpret_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("outer"), folder.path().join("inner"));
        fs::write(&outer, format!("#!{}\n", inner.display())).unwrap();
        fs::write(&inner, "#!/bin/true\n").unwrap();
        assert_eq!(interpreter_of(&outer, None), PathBuf::from("/bin/true"));
    }

    #[test]
    fn an_interpreter_that_is_missing_is_returned() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("orphan");
        fs::write(&file, "#!/no/such/interpreter -x\n").unwrap();
        let missing = PathBuf::from("/no/such/interpreter");
        assert_eq!(interpreter_of(&file, None), missing);
        assert_eq!(interpreter_of(&missing, None), missing);
    }

    #[test]
    fn a_script_that_interprets_itself_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("self");
        fs::write(&file, format!("#!{}\n", file.display())).unwrap();
        assert_eq!(interpreter_of(&file, None), file);
    }
}
