//! Stack use, measured: how much stack the calls of a program take on paths that run.

use crate::support::{Run, is_full, library, program, scratch, slab_policy, testing_a_peer};

/// Maximum number of bytes of stack for `malloc` and its relatives, first calls included: under the
/// library's slab policy, and with instruments. The aim for all is 1.5 KiB. (In libquarry-full.so
/// the moves of objects take 16 bytes more, because caches are served in every mode.)
fn limits() -> (usize, usize) {
    match library().map(slab_policy) {
        Some("sheaf") if library().is_some_and(is_full) => (1552, 1792),
        Some("sheaf") => (1536, 1792),
        // Batches of up to 120 objects are on the stack.
        Some("slab" | "slam") => (3200, 3456),
        _ => (1792, 2688),
    }
}

/// A run of the program that measures. The program finds its functions before it starts, because
/// the loader's search for one takes more stack than any call here.
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
    // The thread registers itself, and reads a file before.
    let own = depth("thread", limit + 1700);
    own.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").finish().success();
}

#[test]
fn all_calls_with_instruments() {
    let limit = limits().1;
    for (name, value) in [("QUARRY_DEBUG", "FZPU"), ("QUARRY_HARDEN", "1"), ("QUARRY_GUARD", "all")]
    {
        depth("all", limit).env(name, value).finish().success();
    }
    // A trace of 64 callers is on the stack.
    let profile = scratch().join("profile");
    depth("all", limit.max(2304)).env("QUARRY_PROFILE", profile).finish().success();
}

/// Coroutines and handlers: the page below their small stacks faults at any access.
#[test]
fn coroutines_and_handlers() {
    for bytes in ["8192", "6144", "4096"] {
        Run::new(program("stack_depth.c")).args(["on", bytes]).finish().success();
    }
    // SIGSTKSZ, of which the kernel uses up to half for the registers.
    Run::new(program("stack_depth.c")).args(["handler", "8192"]).finish().success();
}
