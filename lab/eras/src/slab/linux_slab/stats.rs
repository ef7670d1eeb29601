//! The counts of a cache, summed over its nodes.

use super::cache::SlabCache;
use quarry_mm::slab::{BarnStats, Exchanges, SlabStats};
use quarry_sys::percpu::{ArrayUse, Arrays};

impl<P: Arrays> SlabCache<'_, P> {
    /// Sums the counts. Each is read by itself, so they may not agree. O(nodes + slots).
    pub(super) fn stats(&self) -> SlabStats {
        let mut stats = SlabStats::default();
        let (mut free_objects, mut free_slabs) = (0, 0);
        let (mut exchanges, mut operations_before) = (Exchanges::default(), 0);
        let usage = self.context.percpu.usage(self.array());
        stats.parked_objects = usage.level;
        for (node, of_node) in self.nodes().zip(&mut stats.barns) {
            let lists = node.lists.lock();
            exchanges += lists.exchanges;
            stats.slabs_allocated += lists.slabs_allocated;
            stats.slabs_freed += lists.slabs_freed;
            operations_before += lists.operations_before;
            free_objects += lists.free_objects;
            free_slabs += lists.free_slabs;
            stats.partial_slabs += lists.partial_slabs;
            let objects = lists.shared.level() as u64;
            drop(lists);
            stats.parked_objects += objects;
            *of_node = BarnStats { objects, lock: node.lists.stats() };
            stats.list_lock += of_node.lock;
        }
        for (_, aliens) in self.tables.aliens(self.cache.id()) {
            let (objects, frees) = aliens.counts();
            stats.parked_objects += objects;
            exchanges.free_slow += frees;
        }
        let operations = usage.operations.saturating_sub(operations_before);
        exchanges.fill(ArrayUse { operations, ..usage }, &mut stats);
        stats.total_slabs = stats.slabs_allocated - stats.slabs_freed;
        stats.total_objects = stats.total_slabs * u64::from(self.cache.objects());
        stats.active_objects = stats.total_objects.saturating_sub(free_objects);
        stats.active_slabs = stats.total_slabs.saturating_sub(free_slabs);
        stats
    }
}
