//! Bounds freed memory, so that a process gets no larger than its peak of memory in use requires.
//!
//! As long as the process holds no more than its recent peak of memory in use, freed memory costs
//! nothing: a program that allocates and frees 10 MiB in a loop may keep it. But a process that
//! grows while it keeps such memory gets too large. So freed memory goes back before other memory
//! is touched: cached mappings (oldest first), objects in barns, and dirty memory of the zones.
//!
//! The peak is the most memory in use during this period of half a second and the one before.
//!
//! A program that alternates between kinds of memory soon touches again the pages that went back.
//! So an allowance limits how many pages go back: half of the peak at once, and in the long run,
//! per second, a quarter of the peak, or, if fewer, the pages that a twentieth of the time can
//! bring in again at their measured price. (With four times this allowance PHP took 7 % more time,
//! and realloc in steps of pages took four times as long.)
//!
//! Only whole pageblocks, cached mappings and pages of sparse slabs (see `reap.rs`) go back here;
//! the reclaim thread handles smaller blocks. (When smaller blocks went back here too, two threads
//! that replaced objects of up to 128 KiB made 180 system calls of 30 us each per million
//! operations, and faulted the blocks in again. The peaks of perl, python3, lua and sqlite3 were
//! the same in both cases, to 1.5 %.)
//!
//! The bound is the peak plus a margin. A process above the bound goes down to the peak; then it
//! may grow by the margin before more goes back, so that it takes few page faults. A small request
//! gives back one step, and later requests the other steps. If memory cannot go back because it
//! lies in pieces, the next attempt comes once the process has grown by another margin.

use crate::frame::{FRAME_BYTES, PAGEBLOCK_FRAMES};
use crate::slab::{CacheId, SparseWalk};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

const SECOND_NS: u64 = 1_000_000_000;
const WINDOW_NS: u64 = SECOND_NS / 2;
/// The margin is the peak divided by this, but at least `MARGIN_LEAST`.
const MARGIN_SHARE: u32 = 32;
/// The least margin in frames, 1 MiB.
const MARGIN_LEAST: u32 = (1 << 20) / FRAME_BYTES as u32;
/// The peak divided by this may go back at once.
const ALLOWED_AT_ONCE: u32 = 2;
/// In the long run, the peak divided by this may go back in a second.
const ALLOWED_PER_SECOND: u64 = 4;
/// In the long run, no more may go back than the time divided by this can bring in again.
const FAULTS_SHARE: u64 = 20;
/// A page fault takes this many times the measured price, which is that of clearing a page.
const FAULT_PER_PRICE: u64 = 2;

pub(super) struct Footprint {
    pub(super) recent: RecentPeak,
    /// Frames that stayed in memory after the last try to get below the bound.
    pub(super) stuck: AtomicU32,
    /// Frames that were in memory at the last reap, or fewer after it.
    pub(super) reaped: AtomicU32,
    /// True if a reap found caches whose sparse slabs are to be walked through.
    pub(super) has_sparse: AtomicBool,
    /// No request tries to give memory back before this time.
    pub(super) spent_until_ns: AtomicU64,
    pub(super) given: CountedLock<GivenBack>,
}

pub(super) struct GivenBack {
    /// Frames that count against the allowance: a leaky bucket.
    pub(super) spent: u32,
    since_ns: u64,
    /// The last cache with sparse slabs that requests walked through, and how far they came.
    pub(super) sparse: Option<(CacheId, SparseWalk)>,
}

impl GivenBack {
    /// Frames that may go back now, if 2 MiB take `price_us` to come in.
    pub(super) fn allowance(&mut self, peak: u32, now_ns: u64, price_us: Option<u32>) -> u32 {
        let elapsed = now_ns.saturating_sub(self.since_ns);
        let by_peak = elapsed.saturating_mul(u64::from(peak)) / (ALLOWED_PER_SECOND * SECOND_NS);
        let by_price = price_us.map_or(u64::MAX, |us| {
            let ns = u64::from(us.max(1)) * 1000 * FAULT_PER_PRICE * FAULTS_SHARE;
            elapsed.saturating_mul(u64::from(PAGEBLOCK_FRAMES)) / ns
        });
        let leaked = u32::try_from(by_peak.min(by_price)).unwrap_or(u32::MAX);
        if leaked > 0 {
            self.spent = self.spent.saturating_sub(leaked);
            self.since_ns = now_ns;
        }
        (peak / ALLOWED_AT_ONCE).saturating_sub(self.spent)
    }
}

impl Footprint {
    pub(super) const fn new() -> Self {
        Self {
            recent: RecentPeak::new(),
            stuck: AtomicU32::new(0),
            reaped: AtomicU32::new(0),
            has_sparse: AtomicBool::new(false),
            spent_until_ns: AtomicU64::new(0),
            given: CountedLock::new(GivenBack { spent: 0, since_ns: 0, sparse: None }),
        }
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("footprint->given", &self.given);
    }
}

/// The recent peak of frames in use. If two stores race, the next request repairs the value.
pub(super) struct RecentPeak {
    /// The peak of this period.
    peak: AtomicU32,
    /// The peak of the period before.
    before: AtomicU32,
    /// The end of this period.
    until_ns: AtomicU64,
}

impl RecentPeak {
    const fn new() -> Self {
        Self { peak: AtomicU32::new(0), before: AtomicU32::new(0), until_ns: AtomicU64::new(0) }
    }

    pub(super) fn note(&self, in_use: u32, now_ns: u64) -> u32 {
        let mut peak = self.peak.load(Relaxed);
        if now_ns >= self.until_ns.load(Relaxed) {
            self.until_ns.store(now_ns + WINDOW_NS, Relaxed);
            self.before.store(peak, Relaxed);
            peak = 0;
            self.peak.store(in_use, Relaxed);
        } else if in_use > peak {
            self.peak.store(in_use, Relaxed);
        }
        in_use.max(peak).max(self.before.load(Relaxed))
    }
}

pub(super) fn margin(peak: u32) -> u32 {
    (peak / MARGIN_SHARE).max(MARGIN_LEAST)
}

/// Frames to give back if `footprint` are in memory. The last try got down to `stuck` frames.
pub(super) fn excess(footprint: u32, peak: u32, stuck: u32) -> u32 {
    let bound = peak.max(stuck).saturating_add(margin(peak));
    if footprint > bound { footprint - peak } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_remembered_for_one_to_two_windows() {
        let recent = RecentPeak::new();
        assert_eq!(recent.note(100, 1), 100);
        assert_eq!(recent.note(10, 2), 100);
        assert_eq!(recent.note(20, WINDOW_NS + 1), 100, "in the window before");
        assert_eq!(recent.note(10, 2 * WINDOW_NS), 100);
        assert_eq!(recent.note(10, 2 * WINDOW_NS + 1), 20);
        assert_eq!(recent.note(30, 2 * WINDOW_NS + 2), 30);
        assert_eq!(recent.note(1, 9 * WINDOW_NS), 30, "nobody asked in between");
        assert_eq!(recent.note(1, 10 * WINDOW_NS), 1);
    }

    #[test]
    fn what_is_too_much_goes_down_to_the_peak() {
        assert_eq!(excess(100 + MARGIN_LEAST, 100, 0), 0);
        assert_eq!(excess(101 + MARGIN_LEAST, 100, 0), 1 + MARGIN_LEAST);
        let large = 1 << 20;
        assert_eq!(excess(large + large / MARGIN_SHARE, large, 0), 0);
        assert_eq!(excess(large + large / MARGIN_SHARE + 1, large, 0), large / MARGIN_SHARE + 1);
    }

    #[test]
    fn no_more_than_an_allowance_goes() {
        let mut past = GivenBack { spent: 0, since_ns: 0, sparse: None };
        let (peak, all) = (8000, 8000 / ALLOWED_AT_ONCE);
        assert_eq!(past.allowance(peak, SECOND_NS, None), all);
        past.spent = all;
        assert_eq!(past.allowance(peak, SECOND_NS, None), 0);
        assert_eq!(past.allowance(peak, 2 * SECOND_NS, None), 2000);
        assert_eq!(past.allowance(peak, 9 * SECOND_NS, None), all);
        past.spent = all;
        for step in 1..=SECOND_NS / 1000 {
            past.allowance(4, 9 * SECOND_NS + step * 1000, None);
        }
        assert_eq!(past.spent, all - 1);
    }

    #[test]
    fn what_is_dear_to_bring_in_goes_more_slowly() {
        let mut past = GivenBack { spent: 0, since_ns: SECOND_NS, sparse: None };
        let peak = 1 << 20;
        past.spent = peak / ALLOWED_AT_ONCE;
        // If 2 MiB take twice 1,250 us, 50 ms bring 10,240 frames in.
        assert_eq!(past.allowance(peak, 2 * SECOND_NS, Some(1250)), 10_240);
        past.spent = peak / ALLOWED_AT_ONCE;
        assert_eq!(past.allowance(peak, 3 * SECOND_NS, Some(1)), peak / 4, "the peak bounds it");
    }

    #[test]
    fn what_could_not_go_is_left_alone_until_more_has_come() {
        let stuck = 100 + 2 * MARGIN_LEAST;
        assert_eq!(excess(stuck + MARGIN_LEAST, 100, stuck), 0);
        assert_eq!(excess(stuck + MARGIN_LEAST + 1, 100, stuck), 3 * MARGIN_LEAST + 1);
    }
}
