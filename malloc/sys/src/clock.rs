//! Clocks for statistics and timeouts.

use crate::confined::is_confined;
use crate::primitive::clock;

/// Monotonic nanoseconds since an arbitrary start, for statistics; 0 in a
/// [confined](crate::confined) process. O(1): a vDSO call, or else a system call. Not inlined: each
/// lock and unlock would have a copy, and in a program with fat LTO the copies took 15 KB.
#[must_use]
#[inline(never)]
pub fn monotonic_ns() -> u64 {
    if is_confined() { 0 } else { clock::now_ns() }
}

/// Monotonic nanoseconds at the last timer tick, some milliseconds ago; never a system call. O(1).
#[must_use]
pub fn coarse_ns() -> u64 {
    clock::last_tick_ns()
}

/// Nanoseconds since 1970, comparable with times in files of other processes; 0 in a
/// [confined](crate::confined) process. O(1), one vDSO call.
#[must_use]
pub fn wall_ns() -> u64 {
    if is_confined() { 0 } else { clock::wall_ns() }
}
