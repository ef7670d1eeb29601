//! Real programs on the library, unmodified. Each proves that its allocations reached Quarry: the
//! statistics that it leaves at exit count them. `make test` installs what is needed.

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

/// The program `name` of the search path, or a failure that says which Debian package has it.
fn installed(name: &str, package: &str) -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed: apt-get install {package}"))
}

/// Runs a helper without the library and returns what it prints; it must succeed.
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
