//! Processes in sandboxes: seccomp filters that kill them at the first system call which is not on
//! a list.

use crate::support::{Run, program};

/// Runs a program without statistics at exit, because writing them would need a file.
fn start(source: &'static str) -> Run {
    Run::new(program(source)).without_stats()
}

/// Under OpenSSH's filter: no thread is started while there is little memory to give back.
#[test]
fn filter_of_openssh() {
    start("sandbox_openssh.c").arg("keep").finish().success();
    start("sandbox_openssh.c").arg("late").finish().success();
    start("sandbox_openssh.c").arg("free").env("QUARRY_BACKGROUND", "0").finish().success();
    start("sandbox_openssh.c").arg("free").env("QUARRY_SANDBOX", "1").finish().success();
}

/// Under filters of the program's threads: only the allocator's own thread calls membarrier.
#[test]
fn filters_of_the_programs_threads() {
    start("sandbox_threads.c").arg("each").finish().success();
}

#[test]
fn filter_of_all_threads() {
    start("sandbox_threads.c").arg("all").env("QUARRY_SANDBOX", "1").finish().success();
}

/// A filter from before the start of the program; the launcher, before it, has none.
#[test]
fn filter_from_before_the_start() {
    start("sandbox_start.c").env("QUARRY_SANDBOX", "1").finish().success();
}
