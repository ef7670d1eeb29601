//! How much memory a heap holds, in bytes: for `mallinfo2` and its relatives.

use super::{Stack, StackConfig};
use crate::frame::{FRAME_BYTES, NodeId, PAGEBLOCK_BYTES};
use quarry_sys::percpu::{PerCpu, SlotIndex};

/// A snapshot; its parts are read one after the other, and exact where nobody else is at work.
///
/// Equations: `used_bytes + free_bytes = arena_bytes`; `parked_bytes <= free_bytes`; what callers
/// hold is `used_bytes + mapped_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapUse {
    /// Address space of zones and mappings.
    pub address_space_bytes: usize,
    /// Memory of the zones, in use or free, and of mappings kept for reuse.
    pub arena_bytes: usize,
    /// Memory of live mappings.
    pub mapped_bytes: usize,
    /// Live mappings.
    pub mappings: usize,
    /// Objects and blocks in use, in bytes; mappings are not among them.
    pub used_bytes: usize,
    /// Free objects of slabs, parked ones included.
    pub free_objects: usize,
    /// What is not in use: free objects and what slabs have beside objects, pages on the lists of
    /// CPUs, free memory of the zones, mappings kept for reuse.
    pub free_bytes: usize,
    /// Of the free objects, those in the slots of CPUs and in barns.
    pub parked_objects: usize,
    /// Bytes of those.
    pub parked_bytes: usize,
}

/// Where the memory of a heap is, in bytes; its parts are read one after the other. Their sum
/// without `free_zero` and `withheld` is what may be resident, beside Quarry's own tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryHeld {
    /// Objects of slabs that are in use.
    pub objects: usize,
    /// Objects in the arrays of CPUs and in barns.
    pub parked: usize,
    /// Free objects of slabs that have others in use.
    pub free_in_slabs: usize,
    /// Objects of slabs that have none in use.
    pub empty_slabs: usize,
    /// What slabs have beside their objects.
    pub around_objects: usize,
    /// Blocks of pages in use.
    pub blocks: usize,
    /// Freed blocks that are out of the program's reach and hold no memory.
    pub withheld: usize,
    /// Pages on the lists of CPUs.
    pub page_lists: usize,
    /// Free memory of the zones that may hold data.
    pub free_dirty: usize,
    /// Free memory of the zones that is known to be zero.
    pub free_zero: usize,
    /// Mappings in use, as far as they are charged to the budget.
    pub mappings: usize,
    /// Freed mappings that are kept, likewise.
    pub mappings_cached: usize,
}

impl<C: StackConfig> Stack<C> {
    /// Where the memory is now. O(caches * slots).
    #[must_use]
    pub fn memory_held(&self) -> MemoryHeld {
        let inner = self.inner();
        let mut held = MemoryHeld::default();
        let mut slabs = 0;
        for cache in inner.caches.iter() {
            let stats = self.cache_stats(cache.id());
            let bytes = |objects: u64| objects as usize * cache.stride();
            let empty = stats.total_slabs.saturating_sub(stats.active_slabs);
            let empty = bytes(empty * u64::from(cache.objects()));
            let free = bytes(stats.total_objects.saturating_sub(stats.active_objects));
            held.objects += bytes(stats.active_objects.saturating_sub(stats.parked_objects));
            held.parked += bytes(stats.parked_objects);
            held.free_in_slabs += free.saturating_sub(empty);
            held.empty_slabs += empty;
            let all = stats.total_slabs as usize * cache.order().bytes();
            held.around_objects += all.saturating_sub(bytes(stats.total_objects));
            slabs += all;
        }
        let zones = inner.pages.zones();
        for zone in zones.all() {
            held.page_lists += self.listed_bytes(zone.node());
            held.free_dirty += zone.dirty() as usize * FRAME_BYTES;
            held.free_zero += zone.free().saturating_sub(zone.dirty()) as usize * FRAME_BYTES;
        }
        let mapped = zones.budget().mapped() as usize * FRAME_BYTES;
        let used = zones.budget().used() as usize * FRAME_BYTES;
        held.withheld = self.withheld.frames() as usize * FRAME_BYTES;
        held.blocks = used.saturating_sub(mapped + slabs + held.page_lists + held.withheld);
        held.mappings_cached = inner.mappings.cached_charged() as usize * FRAME_BYTES;
        held.mappings = mapped.saturating_sub(held.mappings_cached);
        held
    }

    /// Bytes of frames of a node that wait in page lists.
    fn listed_bytes(&self, node: NodeId) -> usize {
        let slots = (0..self.percpu().area().slots()).map(SlotIndex);
        let frames = slots.map(|slot| self.inner().pages.pcp_tuning(slot, node).count as usize);
        frames.sum::<usize>() * FRAME_BYTES
    }

    /// What the heap holds now. O(caches * slots).
    #[must_use]
    pub fn heap_use(&self) -> HeapUse {
        let inner = self.inner();
        let held = self.memory_held();
        let zones: usize = inner.pages.zones().all().map(|zone| zone.managed() as usize).sum();
        let arena_bytes = zones * FRAME_BYTES + held.mappings_cached;
        // Between two looks others may have taken more than the first one saw.
        let used_bytes = (held.objects + held.blocks).min(arena_bytes);
        let mut usage = HeapUse {
            address_space_bytes: self.arena().pageblocks_taken() * PAGEBLOCK_BYTES,
            arena_bytes,
            mapped_bytes: held.mappings,
            mappings: inner.mappings.live(),
            used_bytes,
            free_bytes: arena_bytes - used_bytes,
            parked_bytes: held.parked,
            ..HeapUse::default()
        };
        for cache in inner.caches.iter() {
            let stats = self.cache_stats(cache.id());
            let free = stats.total_objects.saturating_sub(stats.active_objects);
            usage.free_objects += (free + stats.parked_objects) as usize;
            usage.parked_objects += stats.parked_objects as usize;
        }
        usage
    }
}
