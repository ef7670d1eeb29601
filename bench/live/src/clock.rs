//! The clocks of records and of `/proc`.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds on `CLOCK_MONOTONIC`, the clock of the times in records.
pub(crate) fn now_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// Longest lag of the coarse clock: one tick, which is 10 ms with `CONFIG_HZ_100`. A process dates
/// the claim of its record by that clock.
const COARSE_LAG_NS: u64 = 10_000_000;

/// The earliest time, on the coarse clock, at which a process can have begun. `/proc` gives its
/// start as `ticks` since the start of the machine, `per_second` a second, on `CLOCK_BOOTTIME`.
/// That clock also counts the time that the machine slept. How much of this sleep came before the
/// process is unknown, so all of it is subtracted. The coarse clock's lag is subtracted as well: a
/// child that claims its record at once may date the claim up to a tick before its own start.
pub(crate) fn began_ns(ticks: u64, per_second: u64) -> u64 {
    let began = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
    let slept = nanoseconds(ClockId::CLOCK_BOOTTIME).saturating_sub(now_ns());
    u64::try_from(began).unwrap_or(u64::MAX).saturating_sub(slept + COARSE_LAG_NS)
}

/// Reads a clock; 0 if the system does not have it.
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
        // A process may claim a record as soon as it has started.
        assert!(began_ns(1_000_000, 100) <= 10_000_000_000_000 - COARSE_LAG_NS);
    }
}
