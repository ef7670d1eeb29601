//! Checks of wrong command lines and of streams, for every command of Quarry. The tests of the lab
//! include this file as well.

use super::workshop::Workshop;
use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use std::fs::File;
use std::io::pipe;
use std::process::Stdio;

/// Asserts that `command` refuses `arguments` with a line that has `named`, and runs nothing.
#[track_caller]
pub(crate) fn refused(mut command: Command, arguments: &[&str], named: &str) {
    let shop = Workshop::new();
    command.env("QUARRY_LIBRARY", shop.path("")).args(arguments);
    let assert = command.assert().code(2).stderr(contains(named));
    // The command may have printed which allocators are absent.
    let nothing = |text: &str| text.lines().all(|line| line.starts_with("absent: "));
    assert.stdout(predicate::function(nothing)).stderr(contains("panicked").not());
}

/// Asserts that the program at `path` ends with status 0 and no message if its reader has left.
#[track_caller]
pub(crate) fn lets_readers_leave(path: &str, arguments: &[&str]) {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut command = std::process::Command::new(path);
    command.args(arguments).stdout(writer).stderr(Stdio::piped());
    let output = command.output().unwrap();
    let status = output.status.code();
    assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    assert_eq!(status, Some(0), "{arguments:?}");
}

/// Asserts that the program at `path` says in one line that its output cannot be written.
#[track_caller]
pub(crate) fn tells_that_no_disk_holds_it(path: &str, arguments: &[&str]) {
    let mut command = std::process::Command::new(path);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command.args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    let expected = "quarry: standard output: No space left on device";
    assert!(text.starts_with(expected) && text.lines().count() == 1, "{arguments:?}: {text}");
}

/// Asserts that the program at `path` ends with 2 if not even its error message can be written; a
/// panic would end with 101.
#[track_caller]
pub(crate) fn fails_without_a_stream(path: &str, arguments: &[&str]) {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(path);
    let status = command.args(arguments).stdout(full()).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(2), "{arguments:?}");
}
