//! Balances of the budget: when the background thread does them, and how requests wait for them.
//!
//! A request that leaves the budget below its low mark wakes the background thread; until the
//! balance begins, later requests do not. If a balance ends below the high mark, the thread tries
//! again after 100 ms, when the limit changes, or when a request waits: it must not spin while all
//! memory is in use (kswapd sleeps after 16 failures, Linux 6.x).

use super::writers;
use crate::background::{self, has_thread, ring};
use crate::balancer::{Balancer, Cache};
use crate::gate;
use crate::instance::{STACK, is_ready, zones};
use quarry_cache::{Goal, PageCaching, ReclaimCaller};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::stack::StackHost;
#[cfg(feature = "heaps")]
use quarry_mm::zone::GroupId;
use quarry_mm::zone::Mark;
use quarry_sys::clock::{coarse_ns, monotonic_ns};
use quarry_sys::errno::KeepErrno;
use quarry_sys::locks::Visit;
#[cfg(feature = "heaps")]
use quarry_sys::own_stack;
use quarry_sys::primitive::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
    futex,
};

/// Time from a failed balance to the next: 100 ms.
const RETRY_NS: u64 = 100_000_000;
/// Time of a request for balances that do not suffice: 20 ms.
const REQUEST_WAIT_NS: u64 = 20_000_000;
/// Time for them if writing dirty pages would free enough for the request: 200 ms.
const DIRTY_WAIT_NS: u64 = 200_000_000;
/// Time for a balance to end: 200 ms. It needs a CPU, and maybe a lock of the request's thread.
const END_WAIT_NS: u64 = 200_000_000;
/// Time for a balance to begin while other threads have the CPUs: 1 s.
const BEGIN_WAIT_NS: u64 = 1_000_000_000;
/// Time after a wait in vain during which no request waits: 200 ms.
const REQUEST_INTERVAL_NS: u64 = 200_000_000;

/// The priority of the pass that [`Balancer::give_way`] makes: one in 8 pages and objects.
const GIVE_WAY_PRIORITY: u32 = 3;

/// A balance is requested, and has not begun.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Time from which a failed balance may be repeated, by the coarse clock.
static RETRY_AT_NS: AtomicU64 = AtomicU64::new(0);
/// The background thread balances now.
static BALANCING: AtomicBool = AtomicBool::new(false);
/// Counts the ends of balances.
static PROGRESS: AtomicU32 = AtomicU32::new(0);
/// Time from which a request may wait again, by the coarse clock.
static NEXT_WAIT_NS: AtomicU64 = AtomicU64::new(0);
/// A task asks the background thread to write dirty pages.
static WRITES_WISHED: AtomicBool = AtomicBool::new(false);

/// Returns whether a balance may begin: no balance has failed lately, or shrinkers owe objects now.
fn may_retry() -> bool {
    coarse_ns() >= RETRY_AT_NS.load(Relaxed) || quarry_cache::is_owed(&STACK)
}

/// Asks for a balance if it is due after the page cache has grown. The caller has no lock. O(1).
#[inline]
pub(super) fn want_if_due() {
    if Cache::is_due() {
        Cache::want(false);
    }
}

fn balance_if_due() {
    if !is_ready() {
        return;
    }
    quarry_cache::note_relief(&STACK);
    if !WANTED.load(Acquire) && !Cache::is_due() || !may_retry() {
        return;
    }
    BALANCING.store(true, Relaxed);
    WANTED.store(false, Relaxed);
    let done =
        quarry_cache::balance(&STACK, ReclaimCaller::Background, Goal::HighMark, gate::enter);
    BALANCING.store(false, Relaxed);
    if done.missing > 0 {
        RETRY_AT_NS.store(coarse_ns() + RETRY_NS, Relaxed);
    }
    PROGRESS.fetch_add(1, AcqRel);
    futex::wake_all(&PROGRESS);
}

/// Waits for the end of a balance, for at most `ns` nanoseconds.
fn wait_for_progress(ns: u64) {
    let seen = PROGRESS.load(Acquire);
    Cache::want(false);
    futex::wait_at_most(&PROGRESS, seen, ns);
}

/// The wait of a request that has found no memory (see [`Balancer::has_balanced`]).
pub(crate) struct BalanceWait {
    frames: usize,
    waited_ns: u64,
}

impl From<usize> for BalanceWait {
    fn from(bytes: usize) -> Self {
        Self { frames: bytes.div_ceil(FRAME_BYTES), waited_ns: 0 }
    }
}

impl BalanceWait {
    /// Waits for the end of a balance; returns whether the request should try again.
    #[inline(never)]
    #[cold]
    pub(super) fn has_balanced(&mut self) -> bool {
        let budget = zones().budget();
        if !budget.has_reserve() || !has_thread() || budget.reclaimers().is_in() {
            return false;
        }
        let start = monotonic_ns();
        if self.frames >= budget.limit() as usize
            || self.waited_ns == 0 && coarse_ns() < NEXT_WAIT_NS.load(Relaxed)
        {
            return false;
        }
        if self.waited_ns >= self.longest_ns() {
            NEXT_WAIT_NS.store(coarse_ns() + REQUEST_INTERVAL_NS, Relaxed);
            return false;
        }
        RETRY_AT_NS.store(0, Relaxed);
        budget.reclaimers().begin_wait(self.frames as u32);
        wait_for_progress(REQUEST_WAIT_NS);
        // Before the request takes its frames: a balance must not count them twice.
        budget.reclaimers().end_wait();
        // Without a clock (a confined process), the request waits once.
        let now = if start == 0 { BEGIN_WAIT_NS } else { monotonic_ns() };
        self.waited_ns += now.saturating_sub(start).max(1);
        true
    }

    fn longest_ns(&self) -> u64 {
        if WANTED.load(Relaxed) {
            BEGIN_WAIT_NS
        } else if BALANCING.load(Relaxed) {
            END_WAIT_NS
        } else if writers::dirty() >= self.frames {
            DIRTY_WAIT_NS
        } else {
            REQUEST_WAIT_NS
        }
    }
}

/// The work of [`Budget::reclaim`](super::Budget::reclaim).
pub(super) fn reclaim(bytes: usize) -> usize {
    if !is_ready() {
        return 0;
    }
    let _errno = KeepErrno::new();
    let used = || zones().budget().used();
    let before = used();
    let frames = u32::try_from(bytes.div_ceil(FRAME_BYTES)).unwrap_or(u32::MAX);
    let goal = Goal::Used(before.saturating_sub(frames));
    quarry_cache::balance(&STACK, ReclaimCaller::Explicit, goal, gate::enter);
    before.saturating_sub(used()) as usize * FRAME_BYTES
}

/// Asks the background thread for writeback, and starts it if needed; returns whether it runs.
#[cold]
pub(super) fn wake_for_writeback() -> bool {
    background::start_for_callbacks();
    let is_there = background::is_at_work();
    if is_there && !WRITES_WISHED.swap(true, AcqRel) {
        ring();
    }
    is_there
}

impl Balancer for PageCaching {
    type Wait = BalanceWait;

    /// Returns whether a balance is due: the program has a page cache or shrinkers, and the budget
    /// is below its low mark or lacks room for a request that waits. O(1); without both, one load.
    #[inline]
    fn is_due() -> bool {
        let budget = zones().budget();
        budget.has_reserve()
            && (budget.is_below(Mark::Low) || budget.room() < budget.reclaimers().awaited())
    }

    #[cold]
    fn want(now: bool) {
        if now {
            RETRY_AT_NS.store(0, Relaxed);
        }
        if has_thread() && may_retry() && !WANTED.swap(true, AcqRel) {
            ring();
        }
    }

    #[inline]
    fn foresee(size: usize) {
        let budget = zones().budget();
        if budget.has_reserve() && (budget.room() as usize) < size / FRAME_BYTES {
            Self::want(false);
        }
    }

    fn approach(beyond: usize, ns: u64) {
        if !has_thread() {
            reclaim(beyond);
        }
        wait_for_progress(ns);
    }

    fn work() {
        balance_if_due();
        if WRITES_WISHED.swap(false, AcqRel) || Self::is_due() {
            // Outside the gate: backings may be slow.
            writers::write_some(writers::TURN_PAGES, |_| {
                balance_if_due();
                !writers::is_due() && !Self::is_due()
            });
        }
    }

    fn reclaim_pages() {
        quarry_cache::reclaim_pages(&STACK);
    }

    fn note_pressure(is_pressed: bool) {
        quarry_cache::note_pressure(&STACK, is_pressed);
    }

    fn give_way() {
        let goal = Goal::OnePass(GIVE_WAY_PRIORITY);
        quarry_cache::balance(&STACK, ReclaimCaller::Background, goal, gate::enter);
    }

    #[cfg(feature = "heaps")]
    fn reclaim_group(group: GroupId) -> usize {
        let Some(cache) = PageCaching::opened(&STACK) else { return 0 };
        own_stack::run(|| cache.direct_reclaim_group(group).freed as usize)
    }

    fn visit_process_locks(visit: &mut Visit<'_>) {
        writers::visit_locks(visit);
    }

    fn forget_parent(had_others: bool) {
        // Stores only where it must, because the kernel copies each page to which the child writes.
        if WANTED.load(Relaxed) {
            WANTED.store(false, Relaxed);
        }
        if BALANCING.load(Relaxed) {
            BALANCING.store(false, Relaxed);
        }
        if had_others {
            writers::forget_uses();
            STACK.cached().adopt_in_child();
        }
    }

    fn has_balanced(wait: &mut BalanceWait) -> bool {
        wait.has_balanced()
    }
}
