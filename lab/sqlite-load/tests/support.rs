//! Starts `quarry-sqlite-load`.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A command of `quarry-sqlite-load`, ready to be started.
pub(crate) fn load(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry-sqlite-load"));
    command.args(arguments);
    for name in ["QUARRY_LIMIT", "QUARRY_DISABLE", "LD_PRELOAD"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command, which has to succeed, and returns its output.
pub(crate) fn printed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the load starts");
    assert!(status.success(), "{command:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("the load prints UTF-8")
}

/// The figures that a command printed.
pub(crate) fn figures(command: &mut Command) -> Value {
    serde_json::from_str(&printed(command)).expect("figures are JSON")
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("folders of tests have plain names")
}
