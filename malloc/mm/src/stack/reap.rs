//! Takes back what caches park for a program that has stopped asking for it, before the process
//! grows (Linux 2.6.7 to 6.7, `mm/slab.c`, `cache_reap`: every two seconds).
//!
//! Sizes that a program asks for move on. Then the arrays and barns of earlier sizes still hold
//! objects, one of them on each of many slabs, and keep all of these slabs from other caches.

use super::instance::{Stack, StackConfig};
use crate::slab::{Cache, MAX_BATCH, Reclaim, SlabPolicy, SlabStats};
use quarry_sys::own_stack;
use quarry_sys::primitive::Ordering::Relaxed;

/// A cache with fewer bytes than this free in its slabs is left alone.
const WORTH_BYTES: u64 = 64 << 10;

/// Returns whether the parked objects keep more memory from other caches than they have.
fn is_pinning(cache: &Cache, stats: &SlabStats) -> bool {
    let free = stats.total_objects.saturating_sub(stats.active_objects);
    free > stats.parked_objects
        && stats.parked_objects > 0
        && free * cache.stride() as u64 >= WORTH_BYTES
}

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

    /// Gives the parked objects of caches to their slabs if these caches have served fewer objects
    /// than a sheaf since the last reap. O(caches * slots).
    #[cold]
    #[inline(never)]
    fn reap(&self) {
        let context = self.context();
        for cache in self.caches.iter() {
            let stats = self.slab.stats(context.with(cache));
            let seen = &self.deferral.caches[cache.id().index()].allocs;
            let is_idle = stats.allocs().wrapping_sub(seen.load(Relaxed)) < MAX_BATCH as u64;
            seen.store(stats.allocs(), Relaxed);
            if is_idle && is_pinning(cache, &stats) {
                self.slab.reclaim(&context, Reclaim::Cache(cache));
            }
        }
    }
}
