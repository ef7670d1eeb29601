//! Threads that register themselves for restartable sequences, because the C library does not.

use crate::support::{Run, Stats, program};

/// Runs a part of `rseq_own.c` in a process whose C library registers no thread.
fn run(part: &str) -> Stats {
    let run = Run::new(program("rseq_own.c")).arg(part);
    let outcome = run.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").finish().success();
    let stats = outcome.stats();
    assert!(stats.text().contains("sequences serve"), "{part}:\n{}", stats.text());
    assert!(stats.count("rseq registered") > 0, "{part}:\n{}", stats.text());
    stats
}

#[test]
fn by_the_first_request() {
    assert_eq!(run("first").count("rseq registered"), 21);
}

#[test]
fn threads_of_every_kind_end() {
    assert_eq!(run("ends").count("rseq refused"), 0);
}

#[test]
fn storage_of_another_thread_is_left_alone() {
    run("vfork");
    run("clone");
}

#[test]
fn children_of_forks() {
    run("fork");
}

#[test]
fn inside_a_signal_handler() {
    run("signals");
}

/// The kernel keeps the first area of each thread: locked slots serve where it is another's.
#[test]
fn another_user_of_rseq() {
    let stats = run("another");
    assert_eq!(stats.count("rseq refused"), 3, "{}", stats.text());
}

/// Statistics name who serves, and count the thread that was refused.
#[test]
fn a_refusal_is_counted() {
    for error in [libc::ENOSYS, libc::EPERM, libc::EINVAL, libc::EBUSY] {
        let run = Run::new(program("hostile_deny.c")).arg(error.to_string()).arg("rseq");
        let outcome = run.arg(program("hostile_no_rseq.c")).finish().success();
        let stats = outcome.stats();
        assert!(stats.text().contains("locked slots serve"), "{}", stats.text());
        let counts = ["rseq registered", "rseq refused"].map(|name| stats.count(name));
        assert_eq!(counts, [0, 1], "{}", stats.text());
    }
}
