//! Support for tests in which the process must abort.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Bytes of the tests' objects: a sheaf has 64 such objects, and an array room for two sheaves.
pub(crate) const SIZE: usize = 48;
/// The end of a report, if no record tells whether the object was ever handed out.
pub(crate) const NOT_IN_USE: &str =
    "): object of 48 bytes is not in use: freed already, or never allocated";

/// Runs an ignored test of module `suite`: it must abort, and its last line must contain `line`.
pub(crate) fn aborts_in(suite: &str, test: &str, line: &str) {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args([&format!("{suite}::{test}"), "--exact", "--ignored", "--nocapture"])
        .output()
        .expect("this program runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    let last = text.lines().last().unwrap_or_default();
    let is_of_something = ["quarry: free(0x", "quarry: 0x"].iter().any(|it| last.starts_with(it));
    assert!(is_of_something && last.contains(line), "{text}");
}
