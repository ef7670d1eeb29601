//! Time for statistics, and for how long memory is kept and what was found out holds.

/// A monotonic reading in nanoseconds since an arbitrary start, for statistics. O(1), one vDSO
/// call; a system call where the machine's clock cannot be read without the kernel, and therefore 0
/// in a [confined](crate::confined) process.
#[must_use]
pub fn monotonic_ns() -> u64 {
    if crate::confined::is_confined() { 0 } else { read(libc::CLOCK_MONOTONIC) }
}

/// The same of the last tick, some milliseconds ago at most: never a system call, whatever the
/// clock (`do_coarse`, `lib/vdso/gettimeofday.c`, Linux 5.3).
#[must_use]
pub fn coarse_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid, writable timespec for the duration of the call.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
