//! Processes that have locked themselves in, by filters that end them at the first system call
//! which they do not know.

use crate::support::{Run, program};

/// Ends without writing statistics: they need a file.
fn start(source: &'static str) -> Run {
    Run::new(program(source)).without_stats()
}

/// The allocator needs no thread as long as there is little to give back.
#[test]
fn filter_of_openssh() {
    start("sandbox_openssh.c").arg("keep").finish().success();
    start("sandbox_openssh.c").arg("late").finish().success();
    start("sandbox_openssh.c").arg("free").env("QUARRY_BACKGROUND", "0").finish().success();
    start("sandbox_openssh.c").arg("free").env("QUARRY_SANDBOX", "1").finish().success();
}

/// The thread that stops other CPUs is the allocator's own.
#[test]
fn filters_of_the_programs_threads() {
    start("sandbox_threads.c").arg("each").finish().success();
}

#[test]
fn filter_of_all_threads() {
    start("sandbox_threads.c").arg("all").env("QUARRY_SANDBOX", "1").finish().success();
}

/// The library serves the launcher too, which has no filter yet.
#[test]
fn filter_from_before_the_start() {
    start("sandbox_start.c").env("QUARRY_SANDBOX", "1").finish().success();
}
