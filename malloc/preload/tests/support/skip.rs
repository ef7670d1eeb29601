//! Prints that a test cannot run here.

use std::io::Write;

/// Prints that the running test, or the part of it that `why` begins with, is skipped, and why.
/// Writes to standard error directly, because the test harness hides the output of passing tests.
pub(crate) fn skipped(why: &str) {
    let current = std::thread::current();
    let test = current.name().unwrap_or("a test");
    writeln!(std::io::stderr(), "skipped: {test}: {why}").expect("standard error is open");
}
