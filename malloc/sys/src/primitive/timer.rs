//! Sleeping for some time.

use super::backend;

/// Sleeps for `ns` nanoseconds, or a little longer.
pub fn sleep(ns: u64) {
    backend::sleep(ns);
}

/// Sleeps for about 50 us: a rare wait for a thread that was preempted within a few instructions.
/// Spinning would keep that thread off the CPU (for ever, under a real-time scheduler).
pub fn nap() {
    sleep(50_000);
}
