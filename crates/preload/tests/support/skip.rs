//! The line of a test that cannot run here.

use std::io::Write;

/// Says that the running test is skipped, or the part of it that `why` begins with, and why. Past
/// the capture of the test harness, which hides what tests print that pass.
pub(crate) fn skipped(why: &str) {
    let current = std::thread::current();
    let test = current.name().unwrap_or("a test");
    writeln!(std::io::stderr(), "skipped: {test}: {why}").expect("standard error is open");
}
