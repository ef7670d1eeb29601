//! A request that has found nothing: one reclaim on the spot, and another attempt, where that is
//! worth its time (see `deferral`).
//!
//! It has two stages, and the second comes only where an attempt after the first finds nothing:
//!
//! 1. clean, unused pages of the cache: at most 32 of them and 200 us, for each 32 frames of the
//!    request. No lock is waited for there, nothing is written, and no function of the program is
//!    called: the caller may hold any lock of the program.
//! 2. what Quarry itself holds and nobody uses: parked objects, lists, cached mappings; once in
//!    10 ms, because a second look soon after would find nothing.
//!
//! A task that reclaims already gets the reserve instead (see `Reclaimers`).

use super::config::StackConfig;
use super::instance::Stack;
use crate::frame::FRAME_BYTES;
use crate::page_cache::{ScanFor, ScanRequest};
use crate::slab::{Cache, Glance, SlabPolicy};
use crate::zone::Entry;
use quarry_sys::clock::{coarse_ns, monotonic_ns};
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::Ordering::Relaxed;

/// Nanoseconds from one reclaim that has not helped to the next: 10 ms. A reclaim takes 5 us where
/// nothing is held, and up to a millisecond where many CPUs hold much.
const DEFERRED_NS: u64 = 10_000_000;
/// Pages of one look at the cache (`SWAP_CLUSTER_MAX`, Linux 2.6 to 6.18).
const CLUSTER: u32 = ScanRequest::DIRECT_MOST as u32;
/// Pages of each node that such a look meets at most: where most of them are in use, it ends.
const MOST_SCANNED: usize = 512;

impl<C: StackConfig> Stack<C> {
    /// Tries once more where a direct reclaim is worth its time and has found something. `frames`
    /// are what the attempt may have to take.
    #[inline]
    pub(super) fn with_reclaim<T>(
        &self,
        frames: u32,
        attempt: impl Fn() -> Option<T>,
    ) -> Option<T> {
        self.make_room_early(frames);
        attempt().or_else(|| self.after_reclaim(frames, attempt))
    }

    /// Where the budget has no room, pages of the cache go first: an attempt would drain every list
    /// before it gives up. O(1) where there is room, or no cache.
    #[inline]
    pub(super) fn make_room_early(&self, frames: u32) {
        if self.pages().zones().budget().room() < frames && self.used_page_cache().is_some() {
            self.reclaim_pages(frames);
        }
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
        if self.reclaim_pages(frames)
            && let Some(found) = attempt()
        {
            return Some(found);
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
        if self.used_page_cache().is_none() {
            return false;
        }
        let budget = self.pages().zones().budget();
        let Entry::Entered(_inside) = budget.reclaimers().enter() else { return false };
        let mut has_freed = false;
        for _ in 0..frames.div_ceil(CLUSTER).max(1) {
            let freed = self.timed(|| self.scan_directly());
            has_freed |= freed > 0;
            if freed == 0 || budget.room() >= frames {
                break;
            }
        }
        has_freed
    }

    /// Frees up to 32 pages of the cache, of the nearest nodes first; returns how many.
    fn scan_directly(&self) -> usize {
        let Some(cache) = self.used_page_cache() else { return 0 };
        let until_ns = match monotonic_ns() {
            // No clock that could be read without the kernel.
            0 => u64::MAX,
            now => now + ScanRequest::DIRECT_NS,
        };
        let (pages, mut freed) = (self.pages(), 0);
        for node in pages.zones().fallback_order(pages.node_of(self.fast.percpu.current())) {
            let most = ScanRequest::DIRECT_MOST - freed;
            let most_scanned = MOST_SCANNED;
            let request = ScanRequest { who: ScanFor::Direct, most, most_scanned, until_ns };
            freed += cache.reclaim(node, &request).freed as usize;
            if freed >= ScanRequest::DIRECT_MOST || monotonic_ns() >= until_ns {
                break;
            }
        }
        freed
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
