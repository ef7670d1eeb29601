//! When the budget is balanced, and who waits for that.
//!
//! A request that leaves less than the low mark rings the bell, once until the balance begins. A
//! balance that has ended short of the high mark is tried again after 100 ms, or when the limit
//! changes: nothing spins where all memory is in use (kswapd sleeps after 16 failures, Linux 6.x).

use super::bell::{has_thread, ring};
use crate::gate;
use crate::instance::{STACK, is_ready};
use quarry_core::frame::FRAME_BYTES;
use quarry_core::stack::{Goal, ReclaimCaller};
use quarry_core::zone::Mark;
use quarry_sys::clock::coarse_ns;
use quarry_sys::primitive::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
    futex,
};

/// From a balance that has failed to the next: 100 ms.
const RETRY_NS: u64 = 100_000_000;
/// How long a request waits for a balance, and how long the next ones do not.
const REQUEST_WAIT_NS: u64 = 20_000_000;
const REQUEST_INTERVAL_NS: u64 = 200_000_000;

/// A balance is wanted, and has not begun.
static WANTED: AtomicBool = AtomicBool::new(false);
/// When one that has failed may be tried again, on the coarse clock.
static RETRY_AT_NS: AtomicU64 = AtomicU64::new(0);
/// Counts balances that have ended.
static PROGRESS: AtomicU32 = AtomicU32::new(0);
/// When a request may wait again, on the coarse clock.
static NEXT_WAIT_NS: AtomicU64 = AtomicU64::new(0);

/// In the child of a fork: what the parent's thread was to do is nobody's work.
pub(super) fn forget() {
    // A page that is not written is not copied.
    if WANTED.load(Relaxed) {
        WANTED.store(false, Relaxed);
    }
}

/// Returns whether the budget is below its low mark, and something is there to reclaim from. O(1);
/// one load in a program that has neither a page cache nor a shrinker.
#[inline]
pub(super) fn is_due() -> bool {
    let budget = STACK.pages().zones().budget();
    budget.has_reserve() && budget.is_below(Mark::Low)
}

/// Returns whether the running task is in a reclaim.
pub(super) fn is_in_reclaim() -> bool {
    STACK.pages().zones().budget().reclaimers().is_in()
}

/// Has the budget balanced by the thread, if there is one.
#[cold]
pub(crate) fn want() {
    if has_thread() && coarse_ns() >= RETRY_AT_NS.load(Relaxed) && !WANTED.swap(true, AcqRel) {
        ring();
    }
}

/// The same at once, because the limit has changed.
pub(crate) fn want_now() {
    RETRY_AT_NS.store(0, Relaxed);
    want();
}

/// Returns whether there is a thread that balances.
pub(crate) fn is_balanced() -> bool {
    has_thread()
}

/// By the thread: balances the budget if that is due.
pub(super) fn balance_if_due() {
    if !is_ready() || !WANTED.load(Acquire) && !is_due() {
        return;
    }
    let now = coarse_ns();
    if now < RETRY_AT_NS.load(Relaxed) {
        return;
    }
    WANTED.store(false, Relaxed);
    let done = STACK.upkeep().balance(ReclaimCaller::Background, Goal::HighMark, gate::enter);
    if done.missing > 0 {
        RETRY_AT_NS.store(coarse_ns() + RETRY_NS, Relaxed);
    }
    PROGRESS.fetch_add(1, AcqRel);
    futex::wake_all(&PROGRESS);
}

/// Waits until another balance has ended, for `ns` nanoseconds at most.
pub(crate) fn wait_for_progress(ns: u64) {
    let seen = PROGRESS.load(Acquire);
    want();
    futex::wait_at_most(&PROGRESS, seen, ns);
}

/// For a request of `size` bytes that has found no memory: waits for a moment, where the thread may
/// free what the request may not. Returns whether the request is worth another try. Not for each of
/// many that fail in a row.
#[cold]
pub(crate) fn balance_at_limit(size: usize) -> bool {
    let budget = STACK.pages().zones().budget();
    if !budget.has_reserve() || !has_thread() || is_in_reclaim() {
        return false;
    }
    let frames = size.div_ceil(FRAME_BYTES);
    let (now, next) = (coarse_ns(), NEXT_WAIT_NS.load(Relaxed));
    let is_mine = frames < budget.limit() as usize
        && now >= next
        && NEXT_WAIT_NS.compare_exchange(next, now + REQUEST_INTERVAL_NS, Relaxed, Relaxed).is_ok();
    if is_mine {
        RETRY_AT_NS.store(0, Relaxed);
        wait_for_progress(REQUEST_WAIT_NS);
    }
    is_mine && budget.room() as usize >= frames
}
