//! A process that makes no system call which `malloc` of the C library does not make as well
//! (`QUARRY_SANDBOX=1`), because a filter kills for others in all of its threads.
//!
//! What is left: `mmap`, `munmap`, `madvise(MADV_DONTNEED)`, `futex`; at the start also
//! `sched_getaffinity`. That costs the restartable sequences (their barrier is a call of its own),
//! pages brought in by one call, huge pages, moving pages, and memory that goes back while the
//! program is idle.

use crate::primitive::{AtomicBool, Ordering};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Confines the process; before anything else of this crate is used.
pub fn confine() {
    CONFINED.store(true, Ordering::Relaxed);
}

/// Whether the process is confined.
#[inline]
#[must_use]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}
