//! A confined process (`QUARRY_SANDBOX=1`) makes only system calls that `malloc` of the C library
//! also makes, because its filter of system calls kills for any other, in all of its threads.
//!
//! The calls are `mmap`, `munmap`, `madvise(MADV_DONTNEED)` and `futex`, and at the start
//! `sched_getaffinity`. The process gives up restartable sequences (which need `membarrier`),
//! populating, huge pages, moving pages, and giving memory back while the program is idle.

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
