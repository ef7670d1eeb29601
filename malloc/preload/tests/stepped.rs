//! Threads that a debugger steps: each step interrupts the restartable sequence that they are in.

use crate::support::{Run, full_library, libraries, library, program, skipped, testing_a_peer};
use std::path::Path;

fn step(library: &Path, part: &str) -> u64 {
    let program = program("stepped.c");
    let outcome = Run::new(program).arg(part).env("LD_PRELOAD", library).limit_s(600).finish();
    let outcome = outcome.success();
    print!("{}: {part}: {}", library.display(), outcome.stdout);
    if testing_a_peer() { 0 } else { outcome.stats().interrupted() }
}

fn own_libraries() -> impl Iterator<Item = &'static Path> {
    let full = full_library().filter(|full| Some(*full) != library());
    library().into_iter().chain(full)
}

/// Small objects, from arrays that run empty and full: nearly each sequence is given up.
#[test]
fn a_stepped_thread_gets_small_objects() {
    for library in own_libraries() {
        let interrupted = step(library, "small");
        assert!(interrupted > 100 || testing_a_peer(), "{interrupted} sequences are counted");
    }
}

#[test]
fn a_stepped_thread_gets_blocks_of_all_kinds() {
    for part in ["large", "growing", "aligned"] {
        own_libraries().for_each(|library| _ = step(library, part));
    }
}

/// Other threads use the sequences of their CPUs meanwhile.
#[test]
fn a_thread_is_stepped_beside_others() {
    libraries().for_each(|library| _ = step(&library, "beside"));
}

/// A debugger without a debug register for the watched variable steps the whole program.
#[test]
fn a_software_watchpoint_is_reached() {
    let run = Run::bare("gdb").args(["-batch", "-nx", "-ex", "set can-use-hw-watchpoints 0"]);
    let run = match library() {
        Some(library) => {
            run.arg("-ex").arg(format!("set environment LD_PRELOAD {}", library.display()))
        }
        None => run,
    };
    let command =
        ["-ex", "break begin_to_watch", "-ex", "run", "-ex", "watch watched", "-ex", "continue"];
    let run = run.args(command).arg("--args").arg(program("stepped.c")).arg("watched");
    if std::process::Command::new("gdb").arg("--version").output().is_err() {
        skipped("gdb is not installed");
        return;
    }
    let outcome = run.limit_s(600).finish();
    if outcome.stderr.contains("not permitted") {
        skipped("no process may be traced here");
        return;
    }
    assert!(outcome.stdout.contains("Watchpoint 2: watched"), "{outcome}");
    assert!(outcome.stdout.contains("New value = 1"), "{outcome}");
}
