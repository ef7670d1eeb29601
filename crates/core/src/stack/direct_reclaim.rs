//! A request that has found nothing: one reclaim on the spot, and other attempts, where that is
//! worth its time (see `deferral`).
//!
//! What is freed meanwhile belongs to the request (its claim, see `zone::reclaimers`): other tasks
//! that miss at the same time reclaim for themselves. There are two stages, and the second comes
//! only where the first does not help:
//!
//! 1. with a page cache: freed mappings and objects in barns, which cost less to have again than a
//!    page, then clean, unused pages, 32 of them in 200 us at a time, as long as that frees some.
//!    Nothing is written, and no function of the program is called: the caller may hold any lock of
//!    the program. Locks of mappings are only tried, those of LRU lists are waited for, since their
//!    holders ask for nothing meanwhile. Where all that could go is behind locks of mappings, the
//!    task naps outside of the gate: whoever holds them has lost its CPU. The heap leaves the cache
//!    as much as lies below the low mark, or reads would be refused.
//! 2. what Quarry itself holds and nobody uses: parked objects, lists, cached mappings; once in
//!    10 ms, because a second look soon after would find nothing.
//!
//! A task that reclaims already gets the reserve instead (see `Reclaimers`).

use super::instance::{Stack, StackConfig};
use crate::frame::{FRAME_BYTES, NodeId};
use crate::page_cache::{PageCacheRef, ScanRequest};
use crate::pcp::MOST_LOST;
use crate::slab::{Cache, Glance, SlabPolicy};
use crate::zone::{Claim, Entry};
use quarry_sys::clock::{coarse_ns, monotonic_ns};
use quarry_sys::gate;
use quarry_sys::own_stack;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{Ordering::Relaxed, task, timer};

/// Nanoseconds from one reclaim that has not helped to the next: 10 ms. A reclaim takes 5 us where
/// nothing is held, and up to a millisecond where many CPUs hold much.
const DEFERRED_NS: u64 = 10_000_000;
/// Pages of one look at the cache (`SWAP_CLUSTER_MAX`, Linux 2.6 to 6.18).
const CLUSTER: u32 = ScanRequest::DIRECT_MOST as u32;
/// Pages in a row that a request looks at of which none can go: some milliseconds.
const MOST_FRUITLESS: u64 = 1 << 16;
/// Naps of a request for those who hold locks: about a second.
const MOST_NAPS: u32 = 10_000;

/// Who reclaims for a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimant {
    /// The heap, which leaves the cache its floor.
    Heap,
    /// The page cache.
    Cache,
}

/// What a request has spent on naps.
#[derive(Default)]
struct Naps(u32);

impl Naps {
    /// Lets others run; returns false where the request has waited for too long, or there are none:
    /// then a handler of a signal has interrupted whoever it would wait for.
    fn nap(&mut self) -> bool {
        if task::is_alone() {
            return false;
        }
        self.0 += 1;
        // The caller has no lock, and what it has begun is a claim, which ends with a fork.
        gate::outside(timer::nap);
        self.0 < MOST_NAPS
    }
}

impl<C: StackConfig> Stack<C> {
    /// Tries again where a direct reclaim is worth its time and has found something. `frames` are
    /// what the attempt may have to take.
    #[inline]
    pub(crate) fn with_reclaim<T>(
        &self,
        frames: u32,
        attempt: impl Fn() -> Option<T>,
    ) -> Option<T> {
        attempt().or_else(|| self.after_reclaim(frames, attempt))
    }

    /// A direct reclaim for the heap, and attempts after it.
    #[cold]
    pub(super) fn after_reclaim<T>(
        &self,
        frames: u32,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        self.reclaim_for(Claimant::Heap, frames, &mut || {
            found = attempt();
            found.is_some()
        });
        found
    }

    /// A direct reclaim, and attempts after it until one succeeds; returns whether one did.
    pub(super) fn reclaim_for(
        &self,
        who: Claimant,
        frames: u32,
        attempt: &mut dyn FnMut() -> bool,
    ) -> bool {
        let mut naps = Naps::default();
        let claim = loop {
            match self.pages().zones().budget().claim(frames) {
                Entry::Entered(claim) => break claim,
                Entry::Crowded if naps.nap() => {}
                _ => return false,
            }
        };
        if let Some(cache) = self.used_page_cache() {
            let evict = || self.evict_for(cache, (who, frames), &claim, attempt, &mut naps);
            if own_stack::run(|| self.timed(evict)) {
                return true;
            }
        }
        self.is_reclaim_due(frames) && own_stack::run(|| self.reclaim_parked(attempt))
    }

    /// The first stage.
    #[inline(never)]
    fn evict_for(
        &self,
        cache: PageCacheRef<'_, Self>,
        (who, frames): (Claimant, u32),
        claim: &Claim<'_>,
        attempt: &mut dyn FnMut() -> bool,
        naps: &mut Naps,
    ) -> bool {
        let mut has_freed = self.take_stocks(frames, claim);
        let (mut fruitless, mut lost) = (0, 0);
        loop {
            let has_all = claim.collect();
            if (has_all || has_freed && frames <= CLUSTER) && attempt() {
                return true;
            }
            // The budget has them, and a zone or the system has not.
            lost += u32::from(has_all);
            if lost > MOST_LOST {
                return false;
            }
            let most = self.evictable(cache, who, claim.missing());
            let done = cache.direct_reclaim(self.near(), most);
            has_freed = done.freed > 0;
            fruitless = if has_freed { 0 } else { fruitless + done.scanned };
            let goes_on = has_freed
                || done.busy > 0 && naps.nap()
                || done.busy == 0 && done.scanned > 0 && fruitless < self.most_fruitless(cache);
            if !goes_on {
                return false;
            }
        }
    }

    /// Pages that the claimant may take next, for which so many frames are missing. At its floor
    /// the cache takes no more than it needs: the heap would have the rest.
    fn evictable(&self, cache: PageCacheRef<'_, Self>, who: Claimant, missing: u32) -> usize {
        let spare = self.spare_frames(cache);
        let least = if who == Claimant::Cache { missing.max(1).into() } else { 0 };
        spare.max(least).min(CLUSTER.into()) as usize
    }

    /// Frames of cached pages that the heap may have: it leaves the cache its floor, as many as lie
    /// below the low mark. O(slots).
    pub(super) fn spare_frames(&self, cache: PageCacheRef<'_, Self>) -> u64 {
        let floor = self.pages().zones().budget().marks().low;
        cache.events().pages().saturating_sub(floor.into())
    }

    /// Everything twice: what is used is activated the first time.
    fn most_fruitless(&self, cache: PageCacheRef<'_, Self>) -> u64 {
        let zones = self.pages().zones().all();
        let pages: u64 = zones
            .map(|zone| cache.list_sizes(zone.node()))
            .map(|sizes| sizes.active + sizes.inactive)
            .sum();
        (2 * pages).min(MOST_FRUITLESS)
    }

    fn near(&self) -> NodeId {
        self.pages().node_of(self.fast.percpu.current())
    }

    /// See [`Upkeep::reclaim_pages`](super::upkeep::Upkeep::reclaim_pages).
    #[cold]
    pub(super) fn reclaim_pages(&self) -> bool {
        let Some(cache) = self.used_page_cache() else { return false };
        let budget = self.pages().zones().budget();
        let Entry::Entered(_inside) = budget.reclaimers().enter() else { return false };
        let most = self.evictable(cache, Claimant::Heap, 0);
        own_stack::run(|| self.timed(|| cache.direct_reclaim(self.near(), most)).freed > 0)
    }

    /// Takes freed mappings and objects in barns, as far as they are missing; returns whether that
    /// has freed anything. O(1) where there are none.
    fn take_stocks(&self, frames: u32, claim: &Claim<'_>) -> bool {
        let inner = self.inner();
        let before = claim.missing();
        if self.cached_bytes() >= FRAME_BYTES {
            inner.mappings.shrink_cache(inner.pages, frames.max(CLUSTER));
        }
        if claim.missing() > 0 && inner.limits.barns() > 0 {
            inner.slab.relieve(&self.context());
            inner.pages.drain_slot(self.fast.percpu.current());
        }
        claim.missing() < before
    }

    /// The second stage.
    #[inline(never)]
    fn reclaim_parked(&self, attempt: &mut dyn FnMut() -> bool) -> bool {
        self.deferral.reclaims.fetch_add(1, Relaxed);
        // Objects that are freed while the reclaim runs may come too late for it.
        self.note_caches();
        let has_found = self.timed(|| self.direct_reclaim());
        let is_served = has_found && attempt();
        let deferral = &self.deferral;
        deferral.used.store(self.used_beside_claims(), Relaxed);
        let until = if is_served { 0 } else { coarse_ns() + DEFERRED_NS };
        deferral.until_ns.store(until, Relaxed);
        is_served
    }

    /// What claims hold is free again in a moment.
    pub(super) fn used_beside_claims(&self) -> u32 {
        let budget = self.pages().zones().budget();
        budget.used().saturating_sub(budget.claimed())
    }

    /// Does the work, and notes what it took.
    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = monotonic_ns();
        let done = work();
        self.balancing.direct.note(monotonic_ns().saturating_sub(start));
        done
    }

    /// Returns whether a reclaim for a request of `frames` frames may find anything. O(caches *
    /// slots).
    fn is_reclaim_due(&self, frames: u32) -> bool {
        let deferral = &self.deferral;
        let until = deferral.until_ns.load(Relaxed);
        if until == 0 {
            return true;
        }
        let (budget, before) = (self.pages().zones().budget(), deferral.used.load(Relaxed));
        let (used, room) = (self.used_beside_claims(), budget.limit().saturating_sub(before));
        used < before
            || used > before && frames <= room
            || self.cached_bytes() >= FRAME_BYTES
            || self.pages().lists_any_extent()
            || self.withheld.is_there_for_others()
            || coarse_ns() >= until
            || own_stack::run(|| self.inner().caches.iter().any(|cache| self.has_freed(cache)))
    }

    fn note_caches(&self) {
        let (inner, context) = (self.inner(), self.context());
        for cache in inner.caches.iter() {
            let seen = &self.deferral.caches[cache.id().index()];
            seen.activity.store(inner.slab.activity(&context, cache).unwrap_or(0), Relaxed);
            seen.live.store(self.live_objects(cache), Relaxed);
        }
    }

    /// Returns whether a cache has fewer objects in use than the last reclaim saw.
    #[inline(never)]
    fn has_freed(&self, cache: &Cache) -> bool {
        let seen = &self.deferral.caches[cache.id().index()];
        let live = seen.live.load(Relaxed);
        let activity = || self.inner().slab.activity(&self.context(), cache);
        live > 0
            && activity().is_none_or(|now| now != seen.activity.load(Relaxed))
            && self.live_objects(cache) < live
    }

    fn live_objects(&self, cache: &Cache) -> u64 {
        let stats = self.inner().slab.stats(&self.context(), cache);
        stats.allocs().saturating_sub(stats.frees())
    }
}
