//! The counts of a cache, summed over its nodes.

use super::cache::SlabCache;
use super::node::Counts;
use quarry_mm::slab::{BarnStats, SlabStats};
use quarry_sys::percpu::Arrays;

impl<P: Arrays> SlabCache<'_, P> {
    /// Sums the counts. Each is read by itself, so they may not agree. O(nodes + slots).
    pub(super) fn stats(&self) -> SlabStats {
        let (mut stats, mut counts) = (SlabStats::default(), Counts::default());
        let (mut free_objects, mut free_slabs, mut operations_before) = (0, 0, 0);
        let usage = self.context.percpu.usage(self.array());
        stats.parked_objects = usage.level;
        for (node, of_node) in self.nodes().zip(&mut stats.barns) {
            let lists = node.lists.lock();
            counts += lists.counts;
            operations_before += lists.operations_before;
            free_objects += lists.free_objects();
            free_slabs += lists.free_slabs();
            stats.total_slabs += lists.slabs();
            stats.partial_slabs += lists.partial_slabs();
            let objects = lists.shared.level() as u64;
            drop(lists);
            stats.parked_objects += objects;
            *of_node = BarnStats { objects, lock: node.lists.stats() };
            stats.list_lock += of_node.lock;
        }
        for (_, aliens) in self.tables.aliens(self.cache.id()) {
            let (objects, frees) = aliens.counts();
            stats.parked_objects += objects;
            stats.free_slow += frees;
        }
        // level = pushes - pops + batched_in - batched_out; operations = pushes + pops.
        let operations = usage.operations.saturating_sub(operations_before);
        let pushes_more = (usage.level + counts.batched_out).wrapping_sub(counts.batched_in) as i64;
        let pops = (operations as i64 - pushes_more).max(0) as u64 / 2;
        stats.alloc_fast = pops;
        stats.free_fast = operations.saturating_sub(pops);
        stats.alloc_slow = counts.alloc_slow;
        stats.free_slow += counts.free_slow;
        stats.slabs_allocated = counts.slabs_allocated;
        stats.slabs_freed = counts.slabs_freed;
        stats.total_objects = stats.total_slabs * u64::from(self.cache.objects());
        stats.active_objects = stats.total_objects.saturating_sub(free_objects);
        stats.active_slabs = stats.total_slabs.saturating_sub(free_slabs);
        stats
    }
}
