//! The clocks that records and `/proc` go by.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds on `CLOCK_MONOTONIC`, by which records say when they were written.
pub(crate) fn now_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// The coarse clock, which dates the claim of a record, lags by a tick of the kernel at most: 10 ms
/// where it has the fewest (`CONFIG_HZ_100`).
const COARSE_LAG_NS: u64 = 10_000_000;

/// The earliest time on the coarse clock at which a process can have begun that `/proc` says to
/// have begun `ticks` after the machine started, of which there are `per_second`.
///
/// The kernel counts these on `CLOCK_BOOTTIME`, which is ahead by the time that the machine slept.
/// How much of that came before the process began is unknown, so all of it is taken off. A child
/// that publishes as soon as it was forked off is on that clock up to a tick older than itself.
pub(crate) fn began_ns(ticks: u64, per_second: u64) -> u64 {
    let began = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
    let slept = nanoseconds(ClockId::CLOCK_BOOTTIME).saturating_sub(now_ns());
    u64::try_from(began).unwrap_or(u64::MAX).saturating_sub(slept + COARSE_LAG_NS)
}

/// A clock that the system does not have stands at 0.
fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).unwrap_or_else(|_| nix::sys::time::TimeSpec::new(0, 0));
    let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_began_before_now() {
        let stat = procfs::process::Process::myself().unwrap().stat().unwrap();
        let began = began_ns(stat.starttime, procfs::ticks_per_second());
        assert!(began <= now_ns());
        assert!(began_ns(u64::MAX, 1) > now_ns(), "what cannot be does no harm");
        assert_eq!(began_ns(0, 0), 0);
        // A record that a process claims in its first instant.
        assert!(began_ns(1_000_000, 100) <= 10_000_000_000_000 - COARSE_LAG_NS);
    }
}
