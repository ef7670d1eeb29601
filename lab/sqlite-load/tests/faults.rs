//! Out of memory at every request of a workload.

use crate::support::{figures, load, text};
use std::path::Path;
use tempfile::TempDir;

fn fail(kind: &str) {
    let folder = TempDir::new().expect("a folder");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let (before, work) = (scripts.join("faults_before.sql"), scripts.join("faults_work.sql"));
    let mut command = load(&["faults", "quarry", kind, text(folder.path())]);
    command.args([&before, &work]);
    let figures = figures(&mut command);
    let count = |name: &str| figures[name].as_u64().expect("a count");
    assert!(count("failed") > 300, "{figures}");
    assert!(count("reported") > count("failed") / 2, "{figures}");
    assert_eq!(count("sound"), count("failed") + 1, "{figures}");
    assert_eq!((count("bytes_left"), count("pages_left")), (0, 0), "{figures}");
}

#[test]
fn one_request_that_fails_leaves_a_sound_database() {
    fail("transient");
}

#[test]
fn requests_that_fail_from_then_on_leave_a_sound_database() {
    fail("persistent");
}
