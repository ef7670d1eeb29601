//! Small stacks: how much of one the calls of a program take, on paths that are run.

use crate::support::{Run, library, program, scratch, slab_policy, testing_a_peer};

/// Bytes that `malloc` and its relatives may take, first calls included, under the slab policy of
/// the library, and with instruments. 1.5 KiB is where all of them shall come to.
fn limits() -> (usize, usize) {
    match library().map(slab_policy) {
        Some("sheaf") => (1536, 1792),
        // Batches of up to 120 objects lie on the stack.
        Some("slab" | "slam") => (3200, 3456),
        _ => (1792, 2688),
    }
}

/// The program, whose functions are found before it starts: the loader's search for one takes more
/// of the stack than anything here.
fn depth(work: &str, limit: usize) -> Run {
    Run::new(program("stack_depth.c"))
        .args([work, &limit.to_string()])
        .env("LD_BIND_NOW", "1")
        .without_stats()
}

#[test]
fn the_first_call_of_the_process() {
    for entry in ["malloc", "calloc", "realloc", "memalign", "mapping", "trim", "info"] {
        depth(entry, if testing_a_peer() { 1 << 16 } else { limits().0.max(2560) })
            .finish()
            .success();
    }
}

#[test]
fn all_calls() {
    let limit = limits().0;
    for (name, value) in [
        ("QUARRY_BACKGROUND", "1"),
        ("QUARRY_BACKGROUND", "0"),
        ("QUARRY_LIMIT", "200M"),
        ("QUARRY_PURGE_DELAY", "0"),
        ("QUARRY_RECORD", "live"),
        ("QUARRY_SANDBOX", "1"),
        ("GLIBC_TUNABLES", "glibc.pthread.rseq=0"),
    ] {
        depth("all", limit).env(name, value).finish().success();
    }
    depth("thread", limit).finish().success();
}

#[test]
fn all_calls_with_instruments() {
    let limit = limits().1;
    for (name, value) in [("QUARRY_DEBUG", "FZPU"), ("QUARRY_HARDEN", "1"), ("QUARRY_GUARD", "all")]
    {
        depth("all", limit).env(name, value).finish().success();
    }
    // A trace of 64 callers lies on the stack.
    let profile = scratch().join("profile");
    depth("all", limit.max(2304)).env("QUARRY_PROFILE", profile).finish().success();
}

/// A page below them may not be touched.
#[test]
fn coroutines_and_handlers() {
    for bytes in ["8192", "6144", "4096"] {
        Run::new(program("stack_depth.c")).args(["on", bytes]).finish().success();
    }
    // SIGSTKSZ, of which the kernel takes up to half for the registers.
    Run::new(program("stack_depth.c")).args(["handler", "8192"]).finish().success();
}
