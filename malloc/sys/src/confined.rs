//! A confined process (`QUARRY_SANDBOX=1`) makes only the system calls that glibc's `malloc` makes
//! too: its seccomp filter kills it for any other call, in all of its threads.
//!
//! The calls are `mmap`, `munmap`, `madvise(MADV_DONTNEED)` and `futex`, and, once at the start,
//! `sched_getaffinity`. The process gives up restartable sequences (which need `membarrier`),
//! populating memory, huge pages, moving pages by `mremap`, and purging while the program is idle.

use crate::primitive::{AtomicBool, Ordering};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Confines the process. To be called before any other function of this crate.
pub fn confine() {
    CONFINED.store(true, Ordering::Relaxed);
}

/// Returns whether the process is confined.
#[inline]
#[must_use]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}
