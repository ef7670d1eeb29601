//! CPython runs some of its own regression tests, with each object from malloc.

use std::process::Command;

use super::{answer, installed};
use crate::support::{Run, scratch, skipped};

/// Quick tests without a network: data, text, numbers, garbage collection, threads, forks.
const TESTS: [&str; 20] = [
    "test_array",
    "test_class",
    "test_collections",
    "test_copy",
    "test_deque",
    "test_dict",
    "test_fork1",
    "test_gc",
    "test_generators",
    "test_heapq",
    "test_itertools",
    "test_list",
    "test_long",
    "test_memoryview",
    "test_mmap",
    "test_set",
    "test_sort",
    "test_struct",
    "test_thread",
    "test_unicode",
];

/// A Python interpreter that has its regression tests.
fn interpreter() -> String {
    // A version manager may install a shell script; the library is for the interpreter under it.
    let python = installed("python3", "python3");
    let executable = answer(Command::new(python).args(["-c", "import sys; print(sys.executable)"]));
    let executable = executable.trim().to_owned();
    let has_tests = Command::new(&executable).args(["-c", "import test.test_dict"]).output();
    assert!(
        has_tests.expect("python runs").status.success(),
        "{executable} has no regression tests: apt-get install libpython3-testsuite"
    );
    executable
}

#[test]
fn python_passes_its_own_tests() {
    let outcome = Run::new(interpreter())
        .args(["-m", "test", "--timeout", "100"])
        .args(TESTS)
        .env("PYTHONMALLOC", "malloc")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(&scratch())
        .limit_s(300)
        .finish()
        .success();
    let allocs = outcome.stats().object_allocs_of_the_busiest();
    assert!(allocs > 1_000_000, "the busiest process made {allocs} allocations\n{outcome}");
    let all = format!("All {} tests OK.", TESTS.len());
    assert!(outcome.stdout.contains(&all), "not `{all}`\n{outcome}");
}

/// A regression test of CPython that tries all descriptors finds none of Quarry's.
#[test]
fn python_finds_no_descriptor_that_it_did_not_open() {
    let script = "ulimit -Sn 1024 && ulimit -Hn && exec \"$@\"";
    let test = "test.test_subprocess.POSIXProcessTestCase.test_pass_fds_redirected";
    let run = Run::new("sh").args(["-c", script, "sh"]).arg(interpreter()).without_stats();
    let outcome = run.args(["-m", "unittest", test]).current_dir(&scratch()).finish();
    if outcome.stdout.lines().next() == Some("1024") {
        return skipped("the limit of open files cannot be raised for a moment");
    }
    assert!(outcome.success().stderr.contains("\nOK\n"));
}
