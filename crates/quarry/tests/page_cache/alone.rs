//! Parts of tests that need a process of their own: its limit is small, or it forks.

use std::process::Command;

/// Runs the test of this binary with the name `name`, which is ignored otherwise, in a process of
/// its own, with variables of the environment. Returns what it has printed to standard error.
pub(crate) fn alone(name: &str, variables: &[(&str, &str)]) -> String {
    let binary = std::env::current_exe().expect("tests know where they are");
    let output = Command::new(binary)
        .args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .envs(variables.iter().copied())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name}: {}\n{told}\n{said}", output.status);
    assert!(told.contains("1 passed"), "there is a test of the name {name}:\n{told}");
    said
}
