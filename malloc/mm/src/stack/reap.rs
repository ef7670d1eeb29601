//! Takes back what caches keep for a program that has stopped asking for it, before the process
//! grows (Linux 2.6.7 to 6.7, `mm/slab.c`, `cache_reap`: every two seconds).
//!
//! Sizes that a program asks for move on. Then the arrays and barns of earlier sizes still hold
//! objects, one of them on each of many slabs, and keep all of these slabs from other caches. Where
//! the program keeps a few objects of earlier sizes, their slabs stay, and most of their pages hold
//! no object in use. These pages go back as well, in steps, and within the allowance of
//! `footprint.rs`: if the sizes come back, so do the page faults.

use super::deferral::CacheCounts;
use super::footprint::GivenBack;
use super::instance::{Stack, StackConfig, Watch};
use crate::frame::FRAME_BYTES;
use crate::slab::{Cache, CacheId, Reclaim, SlabPolicy, SparseWalk};
use quarry_sys::own_stack;
use quarry_sys::primitive::Ordering::Relaxed;

/// A cache has stopped if it served fewer bytes than this since the last reap. It is left alone if
/// fewer bytes are free in its slabs.
const WORTH_BYTES: u64 = 64 << 10;

/// In the place of a count: the sparse slabs of the cache are to be walked through.
const DUE: u64 = u64::MAX;

impl<C: StackConfig> Stack<C> {
    /// Reaps if the process, of `footprint` frames, has grown by `margin` since the last reap.
    #[inline]
    pub(super) fn reap_while_growing(&self, footprint: u32, margin: u32) {
        let reaped = self.footprint.reaped.load(Relaxed);
        if footprint < reaped {
            self.footprint.reaped.store(footprint, Relaxed);
        } else if footprint - reaped > margin
            && self.footprint.reaped.compare_exchange(reaped, footprint, Relaxed, Relaxed).is_ok()
        {
            own_stack::run(|| self.reap());
        }
    }

    /// Gives the parked objects of caches that have stopped to their slabs, and lets the next
    /// requests walk through these slabs. A cache must have freed a quarter of its free objects
    /// since the last walk, so that walks take little time for each free. O(caches * slots).
    #[cold]
    #[inline(never)]
    fn reap(&self) {
        let context = self.context();
        for cache in self.caches.iter() {
            let stats = self.slab.stats(context.with(cache));
            let CacheCounts { allocs, walked, .. } = self.deferral.of(cache);
            // Another thread may have stored a newer count meanwhile.
            let served = stats.allocs().saturating_sub(allocs.load(Relaxed));
            allocs.store(stats.allocs(), Relaxed);
            let free = stats.total_objects.saturating_sub(stats.active_objects);
            let freed = stats.frees().wrapping_sub(walked.load(Relaxed));
            let are_many = |objects: u64| objects >= WORTH_BYTES.div_ceil(cache.stride() as u64);
            if !are_many(served) && are_many(free) && freed >= free / 4 {
                self.slab.reclaim(&context, Reclaim::Cache(cache));
                walked.store(DUE, Relaxed);
                self.footprint.has_sparse.store(true, Relaxed);
            }
        }
    }

    /// One step of the walks that a reap has asked for.
    pub(super) fn walk_reaped(&self, past: &mut GivenBack) {
        let count = |cache| &self.deferral.of(cache).walked;
        let due = self.caches.iter().find(|cache| count(cache).load(Relaxed) == DUE);
        let Some((bytes, walked)) = self.walk_sparse(&mut past.sparse, due) else {
            self.footprint.has_sparse.store(false, Relaxed);
            return;
        };
        past.spent += (bytes / FRAME_BYTES) as u32;
        if let Some(cache) = walked {
            let frees = self.slab.stats(self.context().with(cache)).frees();
            count(cache).store(frees, Relaxed);
        }
    }

    /// One step through the sparse slabs of `due`, the first cache that is due: gives back pages
    /// without an object in use. Returns the bytes, and the cache if all its slabs are examined;
    /// `None` if no cache is due.
    #[inline(never)]
    pub(super) fn walk_sparse<'a>(
        &self,
        sparse: &mut Option<(CacheId, SparseWalk)>,
        due: Option<&'a Cache>,
    ) -> Option<(usize, Option<&'a Cache>)> {
        let before = sparse.take();
        // The checks fill free objects with bytes and compare them later, so none may be purged.
        let cache = due.filter(|_| !self.watch.have_records())?;
        let started = before.filter(|(id, _)| *id == cache.id()).map(|(_, walk)| walk);
        let mut walk = started.unwrap_or(SparseWalk::START);
        let bytes = self.slab.purge_sparse(self.context().with(cache), &mut walk);
        if walk.is_over() {
            return Some((bytes, Some(cache)));
        }
        *sparse = Some((cache.id(), walk));
        Some((bytes, None))
    }
}
