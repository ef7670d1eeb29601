//! Real programs on the library, unmodified. Each proves that its allocations reached Quarry: the
//! statistics that it writes at exit count them. `make test` installs the programs.

mod compiler;
mod php;
mod povray;
mod python;
mod redis;
pub(crate) mod short;
mod sqlite;
mod sshd;
mod stress_ng;

use std::path::PathBuf;
use std::process::Command;

/// The program `name` in the search path; panics with the name of its Debian package if missing.
fn installed(name: &str, package: &str) -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed: apt-get install {package}"))
}

/// Runs a command without the library and returns its output; the command must succeed.
fn answer(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}
