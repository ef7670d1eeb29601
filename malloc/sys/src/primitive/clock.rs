//! The clock, in nanoseconds since an arbitrary start.

use super::backend;

/// The time now; it never goes back. O(1): a vDSO call, or else a system call.
#[inline(always)]
#[must_use]
pub fn now_ns() -> u64 {
    backend::now_ns()
}

/// The time of the last timer tick, at most some milliseconds ago: never a system call, whatever
/// the clock source (`do_coarse`, `lib/vdso/gettimeofday.c`, Linux 5.3). O(1).
#[inline(always)]
#[must_use]
pub fn last_tick_ns() -> u64 {
    backend::last_tick_ns()
}

/// The time now in nanoseconds since 1970; it may go back. O(1), like [`now_ns`].
#[must_use]
pub fn wall_ns() -> u64 {
    backend::wall_ns()
}
