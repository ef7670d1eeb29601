//! Balances of the budget: when they run, and requests that wait for them.
//!
//! A request that leaves less than the low mark rings the bell, once until the balance begins. A
//! balance that has ended below the high mark is tried again after 100 ms, or when the limit
//! changes, so that the thread does not spin while all memory is in use (kswapd sleeps after 16
//! failures, Linux 6.x).

use super::bell::{has_thread, ring};
use crate::instance::{STACK, is_ready};
use crate::{gate, writers};
use quarry_core::cache::{self, Goal, ReclaimCaller};
use quarry_core::frame::FRAME_BYTES;
use quarry_core::zone::Mark;
use quarry_sys::clock::{coarse_ns, monotonic_ns};
use quarry_sys::primitive::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
    futex,
};

/// Time from a failed balance to the next: 100 ms.
const RETRY_NS: u64 = 100_000_000;
/// Longest time that a request waits for balances,
const REQUEST_WAIT_NS: u64 = 20_000_000;
/// longest time if the dirty pages, once written, would be enough for the request,
const DIRTY_WAIT_NS: u64 = 200_000_000;
/// and time during which later requests do not wait after a wait in vain.
const REQUEST_INTERVAL_NS: u64 = 200_000_000;

/// A balance is wanted, and has not begun.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Time from which a failed balance may be tried again, on the coarse clock.
static RETRY_AT_NS: AtomicU64 = AtomicU64::new(0);
/// Number of balances that have ended.
static PROGRESS: AtomicU32 = AtomicU32::new(0);
/// Time from which a request may wait again, on the coarse clock.
static NEXT_WAIT_NS: AtomicU64 = AtomicU64::new(0);
/// Frames that requests wait for, 0 for none: the largest request, or the latest.
static AWAITED: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork: drops the work of the parent's thread.
pub(super) fn forget() {
    // A page that is not written is not copied.
    if WANTED.load(Relaxed) {
        WANTED.store(false, Relaxed);
    }
    if AWAITED.load(Relaxed) != 0 {
        AWAITED.store(0, Relaxed);
    }
}

/// Returns whether the budget is below its low mark, or has no room for a request that waits, and
/// there is something to reclaim from. O(1); one load in a program that has neither a page cache
/// nor a shrinker.
#[inline]
pub(super) fn is_due() -> bool {
    let budget = STACK.pages().zones().budget();
    budget.has_reserve() && (budget.is_below(Mark::Low) || budget.room() < AWAITED.load(Relaxed))
}

/// The high mark, plus the frames that a request waits for.
fn goal() -> Goal {
    let budget = STACK.pages().zones().budget();
    match AWAITED.load(Relaxed) {
        0 => Goal::HighMark,
        awaited => Goal::Used((budget.limit() - budget.marks().high).saturating_sub(awaited)),
    }
}

/// Returns whether the running task is in a reclaim.
pub(super) fn is_in_reclaim() -> bool {
    STACK.pages().zones().budget().reclaimers().is_in()
}

/// Requests a balance from the thread, if there is one.
#[cold]
pub(crate) fn want() {
    if has_thread() && coarse_ns() >= RETRY_AT_NS.load(Relaxed) && !WANTED.swap(true, AcqRel) {
        ring();
    }
}

/// Like [`want`], but at once, because the limit has changed.
pub(crate) fn want_now() {
    RETRY_AT_NS.store(0, Relaxed);
    want();
}

/// Returns whether there is a thread that balances.
pub(crate) fn is_balanced() -> bool {
    has_thread()
}

/// Called by the thread: balances the budget if this is due.
pub(super) fn balance_if_due() {
    if !is_ready() || !WANTED.load(Acquire) && !is_due() {
        return;
    }
    let now = coarse_ns();
    if now < RETRY_AT_NS.load(Relaxed) {
        return;
    }
    WANTED.store(false, Relaxed);
    let done = cache::balance(&STACK, ReclaimCaller::Background, goal(), gate::enter);
    if done.missing > 0 {
        RETRY_AT_NS.store(coarse_ns() + RETRY_NS, Relaxed);
    }
    PROGRESS.fetch_add(1, AcqRel);
    futex::wake_all(&PROGRESS);
}

/// Waits until another balance has ended, for at most `ns` nanoseconds.
pub(crate) fn wait_for_progress(ns: u64) {
    let seen = PROGRESS.load(Acquire);
    want();
    futex::wait_at_most(&PROGRESS, seen, ns);
}

/// A request that has found no memory, and waits because the thread may free what the request may
/// not: by functions of the program, and by writing dirty pages.
pub(crate) struct BalanceWait {
    frames: usize,
    waited_ns: u64,
}

impl BalanceWait {
    /// For a request of `size` bytes, which has not waited yet.
    pub(crate) fn new(size: usize) -> Self {
        Self { frames: size.div_ceil(FRAME_BYTES), waited_ns: 0 }
    }

    /// Waits until another balance has ended; returns whether the request should try again. Of many
    /// requests that fail in a row, only some wait.
    #[inline(never)]
    #[cold]
    pub(crate) fn has_balanced(&mut self) -> bool {
        let budget = STACK.pages().zones().budget();
        if !budget.has_reserve() || !has_thread() || is_in_reclaim() {
            return false;
        }
        let start = monotonic_ns();
        let most = if writers::dirty() >= self.frames { DIRTY_WAIT_NS } else { REQUEST_WAIT_NS };
        if self.frames >= budget.limit() as usize
            || self.waited_ns == 0 && coarse_ns() < NEXT_WAIT_NS.load(Relaxed)
        {
            return false;
        }
        if self.waited_ns >= most {
            NEXT_WAIT_NS.store(coarse_ns() + REQUEST_INTERVAL_NS, Relaxed);
            return false;
        }
        RETRY_AT_NS.store(0, Relaxed);
        AWAITED.fetch_max(self.frames as u32, Relaxed);
        wait_for_progress(most - self.waited_ns);
        // Without a clock the request waits once.
        let waited = if start == 0 { most } else { monotonic_ns().saturating_sub(start) };
        self.waited_ns += waited.max(1);
        true
    }
}

impl Drop for BalanceWait {
    fn drop(&mut self) {
        if self.waited_ns > 0 {
            AWAITED.store(0, Relaxed);
        }
    }
}
