//! A request that has found nothing: one reclaim on the spot, and another attempt, where that is
//! worth its time (see `deferral`).
//!
//! It has two stages, and the second comes only where an attempt after the first finds nothing:
//!
//! 1. with a page cache: freed mappings and objects in barns, which cost less to have again than a
//!    page, then clean, unused pages: at most 32 of them and 200 us, for each 32 frames of the
//!    request. Locks of mappings are only tried; those of LRU lists are waited for, since their
//!    holders ask for nothing meanwhile. Nothing is written, and no function of the program is
//!    called: the caller may hold any lock of the program.
//! 2. what Quarry itself holds and nobody uses: parked objects, lists, cached mappings; once in
//!    10 ms, because a second look soon after would find nothing.
//!
//! A task that reclaims already gets the reserve instead (see `Reclaimers`).

use super::config::StackConfig;
use super::instance::Stack;
use crate::frame::FRAME_BYTES;
use crate::page_cache::ScanRequest;
use crate::pcp::MOST_LOST;
use crate::slab::{Cache, Glance, Reclaim, SlabPolicy};
use crate::zone::Entry;
use quarry_sys::clock::{coarse_ns, monotonic_ns};
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::Ordering::Relaxed;

/// Nanoseconds from one reclaim that has not helped to the next: 10 ms. A reclaim takes 5 us where
/// nothing is held, and up to a millisecond where many CPUs hold much.
const DEFERRED_NS: u64 = 10_000_000;
/// Pages of one look at the cache (`SWAP_CLUSTER_MAX`, Linux 2.6 to 6.18).
const CLUSTER: u32 = ScanRequest::DIRECT_MOST as u32;

impl<C: StackConfig> Stack<C> {
    /// Tries once more where a direct reclaim is worth its time and has found something. `frames`
    /// are what the attempt may have to take.
    #[inline]
    pub(super) fn with_reclaim<T>(
        &self,
        frames: u32,
        attempt: impl Fn() -> Option<T>,
    ) -> Option<T> {
        attempt().or_else(|| self.after_reclaim(frames, attempt))
    }

    /// A direct reclaim and an attempt after it.
    #[cold]
    pub(super) fn after_reclaim<T>(
        &self,
        frames: u32,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if self.pages().zones().budget().reclaimers().is_in() {
            return None;
        }
        // Others may take what was freed before this request comes to it.
        for _ in 0..MOST_LOST {
            if !self.reclaim_pages(frames) {
                break;
            }
            if let Some(found) = attempt() {
                return Some(found);
            }
        }
        if !self.is_reclaim_due(frames) {
            return None;
        }
        self.deferral.reclaims.fetch_add(1, Relaxed);
        // Objects that are freed while the reclaim runs may come too late for it.
        self.note_caches();
        let has_found = self.timed(|| self.direct_reclaim());
        let found = if has_found { attempt() } else { None };
        let deferral = &self.deferral;
        deferral.used.store(self.pages().zones().budget().used(), Relaxed);
        let until = if found.is_none() { coarse_ns() + DEFERRED_NS } else { 0 };
        deferral.until_ns.store(until, Relaxed);
        found
    }

    /// See [`Upkeep::reclaim_pages`](super::upkeep::Upkeep::reclaim_pages).
    #[cold]
    pub(super) fn reclaim_pages(&self, frames: u32) -> bool {
        let Some(cache) = self.used_page_cache() else { return false };
        let budget = self.pages().zones().budget();
        let Entry::Entered(_inside) = budget.reclaimers().enter() else { return false };
        let mut has_freed = self.take_stocks(frames);
        for _ in 0..frames.div_ceil(CLUSTER).max(1) {
            if has_freed && budget.room() >= frames {
                break;
            }
            let near = self.pages().node_of(self.fast.percpu.current());
            let freed = self.timed(|| cache.direct_reclaim(near));
            has_freed |= freed > 0;
            if freed == 0 {
                break;
            }
        }
        has_freed
    }

    /// Takes freed mappings and objects in barns, as far as they are missing. O(1) where there are
    /// none.
    fn take_stocks(&self, frames: u32) -> bool {
        let (inner, budget) = (self.inner(), self.pages().zones().budget());
        let before = budget.used();
        if self.cached_bytes() >= FRAME_BYTES {
            inner.mappings.shrink_cache(inner.pages, frames.max(CLUSTER));
        }
        if budget.room() < frames && inner.limits.barns() > 0 {
            inner.slab.reclaim(&self.context(), Reclaim::Pressed);
        }
        budget.used() < before
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
        let (used, room) = (budget.used(), budget.limit().saturating_sub(before));
        used < before
            || used > before && frames <= room
            || self.cached_bytes() >= FRAME_BYTES
            || self.pages().lists_any_extent()
            || self.withheld.is_there_for_others()
            || coarse_ns() >= until
            || self.inner().caches.iter().any(|cache| self.has_freed(cache))
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
