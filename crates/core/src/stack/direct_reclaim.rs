//! A request that has found nothing: one reclaim on the spot, and another attempt, where that is
//! worth its time (see `deferral`).

use super::config::StackConfig;
use super::instance::Stack;
use crate::frame::FRAME_BYTES;
use crate::slab::{Cache, Glance, SlabPolicy};
use quarry_sys::clock::coarse_ns;
use quarry_sys::primitive::Ordering::Relaxed;

/// Nanoseconds from one reclaim that has not helped to the next: 10 ms. A reclaim takes 5 us where
/// nothing is held, and up to a millisecond where many CPUs hold much.
const DEFERRED_NS: u64 = 10_000_000;

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
        attempt: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        if !self.is_reclaim_due(frames) {
            return None;
        }
        self.deferral.reclaims.fetch_add(1, Relaxed);
        // Objects that are freed while the reclaim runs may come too late for it.
        self.note_caches();
        let found = if self.direct_reclaim() { attempt() } else { None };
        let deferral = &self.deferral;
        deferral.used.store(self.pages().zones().budget().used(), Relaxed);
        let until = if found.is_none() { coarse_ns() + DEFERRED_NS } else { 0 };
        deferral.until_ns.store(until, Relaxed);
        found
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
