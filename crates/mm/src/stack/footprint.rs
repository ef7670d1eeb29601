//! The bound on freed memory: the process is no larger than memory in use has made it lately.
//!
//! Holding freed memory costs nothing as long as the process has been as large anyway: its peak,
//! which is what a machine must have, does not change. A program that allocates and frees 10 MiB
//! over and over again is as large while it has them as it is between. But one that goes on to grow
//! would be larger by the freed memory than it has to be. So freed memory gives way to memory that
//! is about to be touched: cached mappings, oldest first, objects in barns, and free memory of the
//! zones that holds data.
//!
//! "Lately" is a time between one and two windows of half a second: after that the thread that
//! gives memory back has its turn.
//!
//! A program that alternates between kinds of memory touches again what has gone back. So no more
//! than an allowance goes: half of the peak at once, and in the long run a quarter of it in a
//! second, or what a twentieth of the time can bring in again at its measured price, where that is
//! less. Beyond that the process may be larger. (With four times as much PHP took 7 % more time,
//! and realloc by pages four times as long.)
//!
//! Only whole pageblocks and cached mappings go. Smaller blocks are left to the thread that gives
//! back rested memory: two threads that replaced objects of up to 128 KiB made 180 system calls a
//! million operations for them, of 30 us each, and faulted them in again; without them the peaks of
//! perl, python3, lua and sqlite3 are the same to 1.5 %.
//!
//! Each time that the process is too large, it goes back down to the peak, and not only to the
//! bound above it; a small request gives a step of that, and the requests after it the rest. So
//! between two such times the process has grown by the margin, and page faults that come because
//! memory was given back are as many as those of its growth. Memory that could not be given back,
//! because it lies in pieces, is not looked for again before as much has come on top.

use crate::frame::{FRAME_BYTES, PAGEBLOCK_FRAMES};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

const SECOND_NS: u64 = 1_000_000_000;
const WINDOW_NS: u64 = SECOND_NS / 2;
/// The process may be larger than its recent peak by this part of it,
const MARGIN_SHARE: u32 = 32;
/// but by this many frames in any case: 1 MiB.
const MARGIN_LEAST: u32 = (1 << 20) / FRAME_BYTES as u32;
/// The part of the peak that may go back at once,
const ALLOWED_AT_ONCE: u32 = 2;
/// and this part in a second in the long run,
const ALLOWED_PER_SECOND: u64 = 4;
/// but no more than this part of the time can bring in again.
const FAULTS_SHARE: u64 = 20;
/// A page fault takes about as long as clearing a page does, which is the measured part of its
/// price.
const FAULT_PER_PRICE: u64 = 2;

/// The bound on the size of the process.
pub(super) struct Footprint {
    /// True if the process may be of any size.
    pub(super) is_unbounded: AtomicBool,
    pub(super) recent: RecentPeak,
    /// Frames that were in memory after the last time that there were too many, as long as there
    /// are. Written under the lock, read without it.
    pub(super) stuck: AtomicU32,
    /// Held while the excess is given back.
    pub(super) given: CountedLock<GivenBack>,
}

/// Frames that have been given back lately.
pub(super) struct GivenBack {
    /// Frames that count against the allowance: a leaking bucket.
    pub(super) spent: u32,
    /// The time at which it last leaked.
    since_ns: u64,
}

impl GivenBack {
    /// Frames that may go back now, where 2 MiB take `price_us` to come in.
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
            is_unbounded: AtomicBool::new(false),
            recent: RecentPeak::new(),
            stuck: AtomicU32::new(0),
            given: CountedLock::new(GivenBack { spent: 0, since_ns: 0 }),
        }
    }

    /// Visits the lock of what was given back lately.
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("footprint->given", &self.given);
    }

    /// Lets the process keep all memory that it frees.
    pub(super) fn unbound(&self) {
        self.is_unbounded.store(true, Relaxed);
    }
}

/// The most frames in use at a time lately. Written without a lock: a lost value is seen again at
/// the next request.
pub(super) struct RecentPeak {
    /// Of this window.
    peak: AtomicU32,
    /// Of the window before.
    before: AtomicU32,
    /// The end of this window.
    until_ns: AtomicU64,
}

impl RecentPeak {
    const fn new() -> Self {
        Self { peak: AtomicU32::new(0), before: AtomicU32::new(0), until_ns: AtomicU64::new(0) }
    }

    /// Notes the frames in use now; returns the peak.
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

/// Frames beyond a peak that may be in memory.
fn margin(peak: u32) -> u32 {
    (peak / MARGIN_SHARE).max(MARGIN_LEAST)
}

/// Frames to give back where `footprint` may be in memory and `peak` have been in use at a time,
/// and the last time `stuck` were left.
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
        let mut past = GivenBack { spent: 0, since_ns: 0 };
        let (peak, all) = (8000, 8000 / ALLOWED_AT_ONCE);
        assert_eq!(past.allowance(peak, SECOND_NS, None), all);
        past.spent = all;
        assert_eq!(past.allowance(peak, SECOND_NS, None), 0);
        assert_eq!(past.allowance(peak, 2 * SECOND_NS, None), 2000);
        assert_eq!(past.allowance(peak, 9 * SECOND_NS, None), all);
        // Time that is not enough for a frame is not lost.
        past.spent = all;
        for step in 1..=SECOND_NS / 1000 {
            past.allowance(4, 9 * SECOND_NS + step * 1000, None);
        }
        assert_eq!(past.spent, all - 1);
    }

    #[test]
    fn what_is_dear_to_bring_in_goes_more_slowly() {
        let mut past = GivenBack { spent: 0, since_ns: SECOND_NS };
        let peak = 1 << 20;
        past.spent = peak / ALLOWED_AT_ONCE;
        // 50 ms bring 10,240 frames in where 2 MiB take 1,250 us, doubled.
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
