//! Processes that have locked themselves in, by filters that end them at the first system call
//! which they do not know.

use crate::support::{Run, program};

/// Ends without writing statistics: they need a file.
fn start(source: &'static str, argument: &str) -> Run {
    Run::new(program(source)).arg(argument).without_stats()
}

/// What the allocator has to do, it does without a thread as long as there is little to give back.
#[test]
fn filter_of_openssh() {
    start("sandbox_openssh.c", "keep").finish().success();
    start("sandbox_openssh.c", "free").env("QUARRY_BACKGROUND", "0").finish().success();
    start("sandbox_openssh.c", "free").env("QUARRY_SANDBOX", "1").finish().success();
}

/// The thread that stops other CPUs is the allocator's own.
#[test]
fn filters_of_the_programs_threads() {
    start("sandbox_threads.c", "each").finish().success();
}

#[test]
fn filter_of_all_threads() {
    start("sandbox_threads.c", "all").env("QUARRY_SANDBOX", "1").finish().success();
}
