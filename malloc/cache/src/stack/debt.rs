//! The debt of shrinkers to the page cache: a request evicts pages and may call no shrinker, so
//! shrinkers free their part later, at the start of the next balance.
//!
//! A burst of requests can evict most of the cache before the background thread has made a pass.
//! So the pages that requests of the heap evict are *owed*. With `P` pages before the burst, the
//! balance asks each shrinker for parts of its objects until
//!
//! `asked part = (owed - spare) / P`
//!
//! where `spare` is the free memory above the high mark, which the cache can fill again, less what
//! requests still collect or wait for. So both sides end with about the same part of what they had,
//! also if the burst is over. While it goes on, its requests wait briefly for the shrinkers
//! whenever they have evicted a sixteenth of the pages that are left.

use super::caching::{Debt, PageCaching};
use super::shrinkers::{Ask, ReclaimCaller, Shrunk, objects_in};
use crate::lru::LruPolicy;
use crate::page_cache::PageCacheRef;
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::stack::{Claimant, Miss, StackHost};
use quarry_mm::zone::Zones;
use quarry_sys::clock::coarse_ns;
use quarry_sys::primitive::Ordering::Relaxed;

/// Requests may evict the listed pages divided by this before they wait.
const AHEAD: u64 = 16;
/// Less than the pages divided by this is owed on.
const SMALL: u64 = 64;
/// Naps of all requests from one step of a payment to the next: some 20 ms in all.
const MOST_NAPS: u32 = 200;
/// A burst is over when no request has evicted a page for this long: 5 s. On a busy machine, a
/// thread that fills what it got may need a second until its next request.
const BURST_NS: u64 = 5_000_000_000;
/// Maximum number of steps of a payment.
const MOST_STEPS: u32 = 64;

fn zones<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(stack: &S) -> &Zones {
    stack.pages().zones()
}

pub(super) fn listed_pages<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(
    stack: &S,
    cache: PageCacheRef<'_, S>,
) -> u64 {
    let nodes = zones(stack).all().map(|zone| cache.list_sizes(zone.node()));
    nodes.map(|sizes| sizes.active + sizes.inactive).sum()
}

/// Notes evicted pages. What the page cache evicts for itself is not owed.
pub(super) fn note_evicted<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(
    stack: &S,
    claimant: Claimant,
    pages: u64,
) {
    if claimant == Claimant::Heap && pages > 0 && stack.cached().shrinkers().is_any() {
        let debt = &stack.cached().balancing.debt;
        debt.owed.fetch_add(pages, Relaxed);
        debt.evicted_ns.store(coarse_ns(), Relaxed);
    }
}

/// Returns whether shrinkers owe so much that requests wait for them. O(nodes).
#[must_use]
pub fn is_owed<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(stack: &S) -> bool {
    let owed = stack.cached().balancing.debt.owed.load(Relaxed);
    owed > 0
        && PageCaching::opened(stack).is_some_and(|cache| owed > listed_pages(stack, cache) / AHEAD)
}

impl Debt {
    /// Takes what is owed while `listed` pages are in the cache. Pages that have come back since
    /// the last payment are owed no longer.
    fn owed_beside(&self, listed: u64) -> u64 {
        let (owed, left) = (self.owed.swap(0, Relaxed), self.left.swap(0, Relaxed));
        let evicted = owed.saturating_sub(left);
        let back = (listed + evicted).saturating_sub(self.listed.load(Relaxed));
        owed - back.min(left).min(owed)
    }

    /// Leaves `unpaid` pages, `due` of which have no memory to come back to. The others are owed no
    /// longer once the burst is over; while it goes on, its next request will take that memory.
    fn leave(&self, unpaid: u64, due: u64, listed: u64) {
        let is_over = coarse_ns() > self.evicted_ns.load(Relaxed) + BURST_NS;
        let owed = if is_over { due } else { unpaid };
        self.listed.store(listed, Relaxed);
        self.left.store(owed, Relaxed);
        self.owed.fetch_add(owed, Relaxed);
    }
}

/// Naps if shrinkers owe too much and the background is about to ask them.
pub(super) fn naps<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>>(
    stack: &S,
    miss: &mut Miss<'_>,
) -> bool {
    let naps = &stack.cached().balancing.debt.naps;
    miss.claimant == Claimant::Heap
        && is_owed(stack)
        && naps.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
        && miss.nap()
}

/// Lets shrinkers free what they owe beyond the `spare` frames. Runs outside of the gate, but for
/// the steps in `enter`.
pub(super) fn pay<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>, G>(
    stack: &S,
    caller: ReclaimCaller,
    spare: impl Fn() -> u32,
    enter: &impl Fn() -> G,
) -> Shrunk {
    let (debt, mut shrunk) = (&stack.cached().balancing.debt, Shrunk::default());
    let lets_nap = caller == ReclaimCaller::Background;
    debt.naps.fetch_max(if lets_nap { MOST_NAPS } else { 0 }, Relaxed);
    let Some(cache) = PageCaching::opened(stack) else { return shrunk };
    let (mut asked, mut drained) = (0, 0);
    let drain = || {
        let used = zones(stack).budget().used();
        let _inside = enter();
        stack.shrink_all();
        used.saturating_sub(zones(stack).budget().used())
    };
    let listed = listed_pages(stack, cache);
    let mut owed = debt.owed_beside(listed);
    let pages = owed + listed;
    for steps in 0.. {
        owed += debt.owed.swap(0, Relaxed);
        let unpaid = owed.saturating_sub(asked);
        let due = unpaid.saturating_sub(u64::from(spare().saturating_sub(drained)));
        if due <= pages / SMALL || asked >= pages || steps == MOST_STEPS {
            debt.leave(unpaid, due, listed_pages(stack, cache));
            break;
        }
        if asked == 0 {
            // Page lists fill again, so what they give now is not spare.
            drained = drain();
        }
        // A part of it, because what the shrinkers free may be spare.
        let step = due.div_ceil(2).min(pages.div_ceil(AHEAD)).min(pages - asked);
        let most = objects_in(zones(stack).budget().used() as usize * FRAME_BYTES);
        let done = stack.cached().shrinkers().shrink(caller, Ask::Owed(step, pages - asked), most);
        shrunk += done;
        asked += step;
        if done.freed > 0 {
            debt.naps.fetch_max(if lets_nap { MOST_NAPS } else { 0 }, Relaxed);
            drain();
        }
    }
    shrunk
}
