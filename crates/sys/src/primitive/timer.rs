//! Letting time pass.

use super::backend;

/// Sleeps for `ns` nanoseconds, or a little longer.
pub fn sleep(ns: u64) {
    backend::sleep(ns);
}

/// Sleeps for about 50 us: for the rare wait on a thread that was preempted in a section of a few
/// dozen instructions. Spinning would keep the CPU from it (forever, under a real-time scheduler).
pub fn nap() {
    sleep(50_000);
}
