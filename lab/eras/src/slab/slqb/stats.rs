//! The counts of a cache, summed over its lists.

use super::cache::SlqbCache;
use crate::slab::one_cache::{POPS, PUSHES};
use quarry_mm::slab::SlabStats;
use quarry_sys::percpu::Lists;
use quarry_sys::primitive::{AtomicU64, Ordering};

impl<P: Lists> SlqbCache<'_, P> {
    /// Sums the counts. Each is read by itself, so they may not agree. O(used slots + nodes).
    pub(super) fn stats(&self) -> SlabStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = SlabStats::default();
        let mut free = 0;
        for list in self.tables.used_lists().map(|id| self.list(id)) {
            stats.slabs_allocated += read(&list.slabs_allocated);
            stats.slabs_freed += read(&list.slabs_freed);
            stats.partial_slabs += u64::from(list.nr_partial());
            stats.alloc_slow += read(&list.alloc_slow);
            stats.free_slow += read(&list.free_slow);
            stats.free_fast += read(&list.pushes);
            stats.refills += read(&list.claims);
            stats.list_lock += list.partial.stats();
            free += list.free();
        }
        for slot in self.tables.used_slots() {
            stats.alloc_fast += self.cell(slot, POPS);
            stats.free_fast += self.cell(slot, PUSHES);
        }
        stats.parked_objects = self.parked();
        stats.total_slabs = stats.slabs_allocated.saturating_sub(stats.slabs_freed);
        stats.total_objects = stats.total_slabs * u64::from(self.cache.objects());
        stats.active_objects = stats.total_objects.saturating_sub(free);
        // Empty slabs are never kept, so all slabs are active.
        stats.active_slabs = stats.total_slabs;
        stats
    }

    /// Resets the counts for a new cache, which no thread uses yet; an earlier cache may have had
    /// its number.
    pub(super) fn restart(&self) {
        self.tables.used_lists().for_each(|id| self.list(id).restart());
        self.tables.used_slots().for_each(|slot| self.restart_counts(slot));
    }
}
