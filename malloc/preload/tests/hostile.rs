//! Processes in which the system refuses restartable sequences, membarrier, address space or file
//! descriptors.

use crate::support::{Run, program, scratch};

/// Runs the programs that must always succeed: threads, forks, signals, and a mixture of them.
fn lives_through(start: impl Fn(&'static str) -> Run) {
    for (source, arguments) in [
        ("life_threads.c", ""),
        ("life_cancel.c", ""),
        ("life_fork.c", ""),
        ("life_signals.c", ""),
        ("stress.c", "11 4 20000"),
        ("stress.c", "12 64 1500"),
    ] {
        start(source).args(arguments.split_whitespace()).finish().success();
    }
}

/// The C library registers no thread for restartable sequences (`GLIBC_TUNABLES`): each thread
/// registers itself.
#[test]
fn restartable_sequences_turned_off() {
    let start = |source| Run::new(program(source)).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    start("hostile_no_rseq.c").finish().success();
    lives_through(start);
}

/// Runs `source` under a seccomp filter that fails `calls` with the error number `errno`.
fn denied(calls: &str, errno: i32, source: &'static str) -> Run {
    Run::new(program("hostile_deny.c")).arg(errno.to_string()).arg(calls).arg(program(source))
}

#[test]
fn kernel_without_rseq() {
    denied("rseq", libc::ENOSYS, "hostile_no_rseq.c").finish().success();
    lives_through(|source| denied("rseq", libc::ENOSYS, source));
}

/// The kernel has restartable sequences but refuses membarrier, which restarts those of other CPUs.
#[test]
fn membarrier_refused() {
    lives_through(|source| denied("membarrier", libc::EPERM, source));
}

#[test]
fn rseq_and_membarrier_refused() {
    denied("rseq,membarrier", libc::EPERM, "hostile_no_rseq.c").finish().success();
    lives_through(|source| denied("rseq,membarrier", libc::EPERM, source));
}

fn limited(limit: &str, sizes: &str) {
    Run::new(program("hostile_limit.c"))
        .args(limit.split_whitespace())
        .arg("fill")
        .args(sizes.split_whitespace())
        .finish()
        .success();
}

/// A limit of address space, as `ulimit -v` and batch systems set it.
#[test]
fn little_address_space() {
    for limit in ["as 128", "as 256"] {
        limited(limit, "1048576");
        limited(limit, "9000");
    }
}

/// The heap leaves address space for the stacks of threads. The limit of 300 MiB is slightly more
/// than a power of two plus the size of the tables.
#[test]
fn threads_and_forks_in_little_address_space() {
    for (limit, arguments) in [("300", "21 8 10000 fork signals"), ("512", "22 16 4000")] {
        Run::new(program("hostile_limit.c"))
            .args(["as", limit, "exec"])
            .arg(program("stress.c"))
            .args(arguments.split_whitespace())
            .finish()
            .success();
    }
}

#[test]
fn little_data() {
    for limit in ["data 64", "data 256"] {
        limited(limit, "1048576");
        limited(limit, "9000");
    }
}

/// At a limit, memory freed by one size serves the next size, even if that needs a mapping.
#[test]
fn one_size_after_another_at_the_limit() {
    for limit in ["as 128", "data 128"] {
        limited(limit, "1048576 9000 5000000 40000 12000000 9000 1048576");
    }
}

#[test]
fn every_file_descriptor_closed() {
    Run::new(program("hostile_descriptors.c")).arg(scratch()).finish().success();
}
