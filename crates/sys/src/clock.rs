//! Time: for statistics, and for how long to keep memory and to believe an earlier look.

use crate::confined::is_confined;
use crate::primitive::clock;

/// A monotonic reading in nanoseconds since an arbitrary start, for statistics. O(1), one vDSO
/// call; a system call where the machine's clock cannot be read without the kernel, and therefore 0
/// in a [confined](crate::confined) process.
#[must_use]
pub fn monotonic_ns() -> u64 {
    if is_confined() { 0 } else { clock::now_ns() }
}

/// The reading at the last tick, some milliseconds ago at most: never a system call. O(1).
#[must_use]
pub fn coarse_ns() -> u64 {
    clock::last_tick_ns()
}

/// Nanoseconds since 1970, for those who compare with other processes' files; 0 in a
/// [confined](crate::confined) process. O(1), one vDSO call.
#[must_use]
pub fn wall_ns() -> u64 {
    if is_confined() { 0 } else { clock::wall_ns() }
}
