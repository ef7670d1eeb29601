//! Time, for statistics and for timeouts.

use crate::confined::is_confined;
use crate::primitive::clock;

/// Monotonic nanoseconds since an arbitrary start, for statistics; 0 in a
/// [confined](crate::confined) process. O(1): a vDSO call, or else a system call.
#[must_use]
pub fn monotonic_ns() -> u64 {
    if is_confined() { 0 } else { clock::now_ns() }
}

/// The reading at the last clock tick, at most some milliseconds ago: never a system call. O(1).
#[must_use]
pub fn coarse_ns() -> u64 {
    clock::last_tick_ns()
}

/// Nanoseconds since 1970, to compare with files of other processes; 0 in a
/// [confined](crate::confined) process. O(1), one vDSO call.
#[must_use]
pub fn wall_ns() -> u64 {
    if is_confined() { 0 } else { clock::wall_ns() }
}
