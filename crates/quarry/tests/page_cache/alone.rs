//! Parts of tests that need a process of their own: its limit is small, or it forks.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// Runs the test of this binary with the name `name`, which is ignored otherwise, in a process of
/// its own, with variables of the environment. Returns what it has printed to standard error.
pub(crate) fn alone(name: &str, variables: &[(&str, &str)]) -> String {
    let output = run(name, variables);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name}: {}\n{told}\n{said}", output.status);
    assert!(told.contains("1 passed"), "there is a test of the name {name}:\n{told}");
    said
}

/// The same of a test that aborts.
pub(crate) fn dies(name: &str, variables: &[(&str, &str)]) -> String {
    let output = run(name, variables);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{name}: {}\n{said}", output.status);
    said
}

fn run(name: &str, variables: &[(&str, &str)]) -> Output {
    let binary = std::env::current_exe().expect("tests know where they are");
    let mut command = Command::new(binary);
    command.args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.envs(variables.iter().copied()).output().expect("it starts")
}
