//! A confined process (`QUARRY_SANDBOX=1`) makes only system calls that `malloc` of the C library
//! makes as well, because a filter of system calls kills for others in all of its threads.
//!
//! These are left: `mmap`, `munmap`, `madvise(MADV_DONTNEED)`, `futex`; at the start also
//! `sched_getaffinity`. The process gives up restartable sequences (their barrier is a call of its
//! own), populating, huge pages, moving pages, and memory that goes back while the program is idle.

use crate::primitive::{AtomicBool, Ordering};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Confines the process. Must come before anything else of this crate is used.
pub fn confine() {
    CONFINED.store(true, Ordering::Relaxed);
}

/// Returns whether the process is confined.
#[inline]
#[must_use]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}
