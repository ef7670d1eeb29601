//! Runs parts of tests that need a process of their own: with a small limit, or because they fork.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};

/// Runs the test `name` of this binary, an ignored test, in a process of its own with the given
/// variables of the environment. Returns the process's standard error.
pub(crate) fn alone(name: &str, variables: &[(&str, &str)]) -> String {
    let output = run(name, variables);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name}: {}\n{told}\n{said}", output.status);
    assert!(told.contains("1 passed"), "there is a test of the name {name}:\n{told}");
    said
}

/// Runs a test that aborts, like `alone`.
pub(crate) fn dies(name: &str, variables: &[(&str, &str)]) -> String {
    let output = run(name, variables);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{name}: {}\n{said}", output.status);
    said
}

/// Starts a test that runs until its caller kills it, like `alone`.
pub(crate) fn started(name: &str, variables: &[(&str, &str)]) -> Child {
    command(name, variables).stdout(Stdio::null()).spawn().expect("it starts")
}

fn run(name: &str, variables: &[(&str, &str)]) -> Output {
    command(name, variables).output().expect("it starts")
}

fn command(name: &str, variables: &[(&str, &str)]) -> Command {
    let binary = std::env::current_exe().expect("tests know where they are");
    let mut command = Command::new(binary);
    command.args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.envs(variables.iter().copied());
    command
}
