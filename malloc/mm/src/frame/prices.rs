//! The prices of memory: durations of the calls that bring pages in.
//!
//! On one host a huge page costs half as much as 2 MiB in small pages. On another, the hypervisor
//! takes back memory that was free for some seconds. There a huge page costs ten times as much as
//! small pages, but little soon after its last use. Only durations of calls tell hosts apart.

use super::order::PAGEBLOCK_FRAMES;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The number of durations that are remembered. The shortest is the price, because a call takes
/// longer if its thread waits for a CPU, and nothing makes its duration too short.
const REMEMBERED: usize = 3;
/// A call that takes less time per frame found its pages in memory: no CPU clears 4 KiB so fast.
const LEAST_FRAME_NS: u64 = 40;
/// While huge pages are expensive, trying them takes at most 1 / `PROBE_SHARE` of the time.
const PROBE_SHARE: u64 = 64;

/// Recent prices of bringing memory in.
#[derive(Default)]
pub struct Prices {
    huge: Price,
    small: Price,
    /// From this time on, one huge page may be tried although huge pages are expensive.
    probe_at_ns: AtomicU64,
}

#[derive(Default)]
struct Price {
    /// `{frames : 32 | ns : 32}`: frames that came in since the last entry of `last_us`, and how
    /// long this took. Once they make up 2 MiB, the next entry is computed from both numbers.
    since: AtomicU64,
    /// Recent durations of bringing in 2 MiB, in microseconds, latest first; 0 = none. Threads that
    /// write at the same time may lose entries.
    last_us: [AtomicU32; REMEMBERED],
}

impl Price {
    fn note(&self, frames: u32, ns: u64) {
        let since = self.since.load(Relaxed);
        let (all, ns) = ((since >> 32) + u64::from(frames), u64::from(since as u32) + ns);
        if all < u64::from(PAGEBLOCK_FRAMES) {
            return self.since.store(all << 32 | ns.min(u32::MAX.into()), Relaxed);
        }
        self.since.store(0, Relaxed);
        for at in (1..REMEMBERED).rev() {
            self.last_us[at].store(self.last_us[at - 1].load(Relaxed), Relaxed);
        }
        let each = ns * u64::from(PAGEBLOCK_FRAMES) / all / 1000;
        self.last_us[0].store(u32::try_from(each).unwrap_or(u32::MAX).max(1), Relaxed);
    }

    fn us(&self) -> Option<u32> {
        self.last_us.iter().map(|us| us.load(Relaxed)).filter(|us| *us > 0).min()
    }
}

impl Prices {
    /// Notes that a call which ended at `now_ns` took `ns` to bring `frames` frames in, as a huge
    /// page or as small ones.
    pub fn note(&self, is_huge: bool, frames: u32, ns: u64, now_ns: u64) {
        if ns < u64::from(frames) * LEAST_FRAME_NS {
            return;
        }
        if is_huge {
            self.probe_at_ns.store(now_ns + ns * PROBE_SHARE, Relaxed);
        }
        let price = if is_huge { &self.huge } else { &self.small };
        price.note(frames, ns);
    }

    #[must_use]
    pub(crate) fn huge_us(&self) -> Option<u32> {
        self.huge.us()
    }

    #[must_use]
    pub(crate) fn small_us(&self) -> Option<u32> {
        self.small.us()
    }

    /// Returns whether a huge page costs at most 1.5 times as much as 2 MiB in small pages: later,
    /// faster address translation saves the extra half. True if a price is not known.
    #[must_use]
    pub(crate) fn is_huge_cheap(&self) -> bool {
        match (self.huge_us(), self.small_us()) {
            (Some(huge), Some(small)) => huge <= small.saturating_add(small / 2),
            _ => true,
        }
    }

    /// Returns whether the next pageblock may be a huge page: always while huge pages are cheap,
    /// and from time to time while they are expensive, to measure their price again.
    #[inline(never)]
    pub(crate) fn may_be_huge(&self, now_ns: u64) -> bool {
        if self.is_huge_cheap() {
            return true;
        }
        let is_due = now_ns >= self.probe_at_ns.load(Relaxed);
        if is_due {
            let us = u64::from(self.huge_us().unwrap_or(0));
            self.probe_at_ns.store(now_ns + us * 1000 * PROBE_SHARE, Relaxed);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const ALL: u32 = PAGEBLOCK_FRAMES;

    #[test]
    fn huge_pages_are_dear_where_each_of_the_last_was() {
        let prices = Prices::default();
        assert!(prices.is_huge_cheap() && prices.small_us().is_none());
        for _ in 0..32 {
            prices.note(false, ALL / 32, MS / 50, 0);
        }
        assert_eq!(prices.small_us(), Some(640));
        prices.note(true, ALL, 960_000, 0);
        assert!(prices.is_huge_cheap(), "half as much again is what they are worth");
        for _ in 0..REMEMBERED {
            assert!(prices.is_huge_cheap(), "a thread may have waited for a CPU");
            prices.note(true, ALL, 5 * MS, 0);
        }
        assert_eq!((prices.huge_us(), prices.is_huge_cheap()), (Some(5000), false));
        prices.note(true, ALL, MS / 2, 0);
        assert!(prices.is_huge_cheap());
    }

    #[test]
    fn pages_that_were_in_memory_tell_nothing() {
        let prices = Prices::default();
        prices.note(true, ALL, 10_000, 0);
        prices.note(false, ALL, 10_000, 0);
        assert_eq!((prices.huge_us(), prices.small_us()), (None, None));
    }

    #[test]
    fn dear_huge_pages_are_tried_again_for_a_sixty_fourth_of_the_time() {
        let prices = Prices::default();
        prices.note(false, ALL, MS / 2, 0);
        prices.note(true, ALL, 5 * MS, MS);
        let due = MS + 5 * MS * PROBE_SHARE;
        assert!(!prices.may_be_huge(due - 1));
        assert!(prices.may_be_huge(due), "one may be tried");
        assert!(!prices.may_be_huge(due + 1), "but no other before that one is known");
        prices.note(true, ALL, 5 * MS, due);
        assert!(!prices.may_be_huge(due + 1));
        prices.note(true, ALL, MS / 2, due);
        assert!(prices.may_be_huge(due + 1));
    }
}
