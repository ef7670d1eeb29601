//! The counts of a stack and its memory.

use super::budget_stats::{BudgetStats, DirectNs, bytes};
use super::cached_pages::CachedPages;
use super::instance::{Stack, StackConfig};
use super::large::LargeStats;
use crate::frame::{FRAME_BYTES, METADATA_KINDS, MetadataKind, NodeId, PAGEBLOCK_BYTES};
use crate::pcp::{PagePolicy, PcpCounters};
use crate::slab::{Cache, SlabPolicy, SlabStats};
use crate::zone::Marks;
use quarry_sys::percpu::{PerCpu, SlotIndex, registrations};
use quarry_sys::primitive::Ordering::Relaxed;

/// The memory of a heap, read one part after the other.
///
/// Equations: `used_bytes + free_bytes = arena_bytes`; `parked_bytes <= free_bytes`; callers hold
/// `used_bytes + mapped_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapUse {
    /// Address space of zones and mappings.
    pub address_space_bytes: usize,
    /// Memory of the zones, in use or free, and of cached mappings.
    pub arena_bytes: usize,
    /// Memory of live mappings.
    pub mapped_bytes: usize,
    /// Number of live mappings.
    pub mappings: usize,
    /// Bytes of objects, blocks and cached pages in use, without mappings.
    pub used_bytes: usize,
    /// Number of free objects, parked ones included.
    pub free_objects: usize,
    /// The rest of `arena_bytes`: in slabs, on page lists, free in the zones, in cached mappings.
    pub free_bytes: usize,
    /// Number of free objects in slots and barns.
    pub parked_objects: usize,
    /// Bytes of the parked objects.
    pub parked_bytes: usize,
}

/// The uses of a heap's memory, in bytes, read one after the other. The sum of all but `free_zero`
/// and `withheld` may be resident, in addition to Quarry's own tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryHeld {
    /// Objects in use, of all slabs.
    pub objects: usize,
    /// Objects in the arrays of CPUs and in barns.
    pub parked: usize,
    /// Free objects of slabs that also have objects in use.
    pub free_in_slabs: usize,
    /// Objects of empty slabs.
    pub empty_slabs: usize,
    /// Bytes of slabs that belong to no object.
    pub around_objects: usize,
    /// Blocks of pages in use.
    pub blocks: usize,
    /// Pages of the page cache.
    pub page_cache: usize,
    /// Freed blocks that are inaccessible and hold no memory.
    pub withheld: usize,
    /// Pages on pcp lists.
    pub page_lists: usize,
    /// Free memory of the zones that may hold data.
    pub free_dirty: usize,
    /// Free memory of the zones that is known to be zero.
    pub free_zero: usize,
    /// Mappings in use, as far as the budget charges them.
    pub mappings: usize,
    /// Cached mappings, as far as the budget charges them.
    pub mappings_cached: usize,
}

/// The arrays of CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotUse {
    /// Slots with room for an object.
    pub awake: usize,
    /// Room of the arrays, in bytes of objects.
    pub room_bytes: usize,
    /// Bytes of objects in the arrays.
    pub held_bytes: usize,
    /// Barriers that drains of other CPUs' arrays took.
    pub barriers: u64,
    /// Sequences that left for a slow path because they were interrupted too often.
    pub interrupted: u64,
    /// Threads of the process that registered themselves, where the C library registers none.
    pub registered: u32,
    /// Threads for which the kernel refused that, so that locked slots serve them.
    pub refused: u32,
}

/// The names of the policies that serve a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServedBy {
    /// The slab policy.
    pub slab: &'static str,
    /// The page policy.
    pub pages: &'static str,
    /// The LRU policy.
    pub lru: &'static str,
    /// The kind of the fast paths: `sequences` or `locked slots`.
    pub backend: &'static str,
}

/// The counts of a stack, read one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackStats {
    /// Memory in use and free.
    pub heap: HeapUse,
    /// The uses of the memory.
    pub memory: MemoryHeld,
    /// Requests above the largest object, up to 1 MiB.
    pub blocks: LargeStats,
    /// Requests above 1 MiB.
    pub mappings: LargeStats,
    /// The per-CPU page lists.
    pub page_lists: PcpCounters,
    /// The arrays of CPUs.
    pub slots: SlotUse,
    /// The budget and its uses.
    pub budget: BudgetStats,
    /// The policies.
    pub served_by: ServedBy,
    /// Direct reclaims of the second stage (the kernel's `allocstall`).
    pub direct_reclaims: u64,
    /// Frees that named a wrong size.
    pub wrong_sizes: u64,
    /// How often memory went back because the system was short of it, and how many bytes.
    pub relief: (u64, u64),
    metadata: [usize; METADATA_KINDS],
}

impl StackStats {
    /// Bytes of descriptors of one kind.
    #[must_use]
    pub fn metadata_bytes(&self, kind: MetadataKind) -> usize {
        self.metadata[kind as usize]
    }

    fn add_cache(&mut self, cache: &Cache, stats: &SlabStats) -> usize {
        let bytes = |objects: u64| objects as usize * cache.stride();
        let empty = stats.total_slabs.saturating_sub(stats.active_slabs);
        let empty = bytes(empty * u64::from(cache.objects()));
        let free = stats.total_objects.saturating_sub(stats.active_objects);
        let all = stats.total_slabs as usize * cache.order().bytes();
        let memory = &mut self.memory;
        memory.objects += bytes(stats.active_objects.saturating_sub(stats.parked_objects));
        memory.parked += bytes(stats.parked_objects);
        memory.free_in_slabs += bytes(free).saturating_sub(empty);
        memory.empty_slabs += empty;
        memory.around_objects += all.saturating_sub(bytes(stats.total_objects));
        self.heap.free_objects += (free + stats.parked_objects) as usize;
        self.heap.parked_objects += stats.parked_objects as usize;
        all
    }
}

impl<C: StackConfig> Stack<C> {
    /// The present counts. O(caches * slots + descriptors of pages).
    #[must_use]
    pub fn stats(&self) -> StackStats {
        self.stats_by_cache(&mut |_, _| {})
    }

    /// Same as [`stats`](Self::stats); calls `each` for every cache.
    #[inline(never)]
    pub(super) fn stats_by_cache(&self, each: &mut dyn FnMut(&Cache, &SlabStats)) -> StackStats {
        let built = self.built();
        let mut stats = StackStats {
            blocks: self.block_stats(),
            mappings: self.large.mappings.stats(),
            page_lists: built.pages.pcp_totals(),
            direct_reclaims: self.deferral.reclaims.load(Relaxed),
            wrong_sizes: self.wrong_sizes.load(Relaxed),
            relief: self.relief.counts(),
            slots: self.slot_use(),
            served_by: self.served_by(),
            ..StackStats::default()
        };
        let mut slabs = 0;
        for cache in self.caches.iter().chain(self.caches.loose()) {
            let of_cache = self.slab.stats(self.context().with(cache));
            slabs += stats.add_cache(cache, &of_cache);
            each(cache, &of_cache);
        }
        self.add_memory(&mut stats.memory, slabs);
        self.add_heap_use(&mut stats);
        for kind in MetadataKind::ALL {
            stats.metadata[kind as usize] = built.metadata.bytes(kind);
        }
        stats.budget = self.budget_stats(&stats);
        stats
    }

    /// The counts of blocks, with those that CPUs took from or put on pcp lists outside the gate.
    fn block_stats(&self) -> LargeStats {
        let (counted, (taken, put)) =
            (self.large.blocks.stats(), self.pages().extents_passed_outside());
        LargeStats {
            allocated: counted.allocated + taken,
            freed: counted.freed + put,
            resized: counted.resized,
        }
    }

    fn served_by(&self) -> ServedBy {
        ServedBy {
            slab: <C::Slab as SlabPolicy<_>>::NAME,
            pages: self.pages().policy().name(),
            lru: C::Cache::policy(&self.built().cache),
            backend: if self.fast.percpu.is_sequenced() { "sequences" } else { "locked slots" },
        }
    }

    fn slot_use(&self) -> SlotUse {
        let area = self.fast.percpu.area();
        let (registered, refused) = registrations();
        SlotUse {
            awake: area.awake().count(),
            room_bytes: area.all_room(),
            held_bytes: area.held_bytes(),
            barriers: area.barriers(),
            interrupted: area.interrupted(),
            registered,
            refused,
        }
    }

    fn add_memory(&self, memory: &mut MemoryHeld, slabs: usize) {
        let zones = self.pages().zones();
        for zone in zones.all() {
            memory.page_lists += self.listed_bytes(zone.node());
            memory.free_dirty += zone.dirty() as usize * FRAME_BYTES;
            memory.free_zero += zone.free().saturating_sub(zone.dirty()) as usize * FRAME_BYTES;
        }
        let mapped = zones.budget().mapped() as usize * FRAME_BYTES;
        let used = zones.budget().used() as usize * FRAME_BYTES;
        memory.withheld = self.withheld.frames() as usize * FRAME_BYTES;
        memory.page_cache = C::Cache::frames(self) as usize * FRAME_BYTES;
        let others = mapped + slabs + memory.page_lists + memory.withheld + memory.page_cache;
        memory.blocks = used.saturating_sub(others);
        memory.mappings_cached = self.mappings.cached_charged() as usize * FRAME_BYTES;
        memory.mappings = mapped.saturating_sub(memory.mappings_cached);
    }

    fn listed_bytes(&self, node: NodeId) -> usize {
        let slots = (0..self.fast.percpu.area().slots()).map(SlotIndex);
        let frames = slots.map(|slot| self.pages().listed_frames(slot, node) as usize);
        frames.sum::<usize>() * FRAME_BYTES
    }

    fn add_heap_use(&self, stats: &mut StackStats) {
        let (built, memory) = (self.built(), &stats.memory);
        let zones: usize = built.pages.zones().all().map(|zone| zone.managed() as usize).sum();
        let heap = &mut stats.heap;
        heap.address_space_bytes = self.arena().pageblocks_taken() * PAGEBLOCK_BYTES;
        heap.arena_bytes = zones * FRAME_BYTES + memory.mappings_cached;
        heap.mapped_bytes = memory.mappings;
        heap.mappings = self.mappings.live();
        let used = memory.objects + memory.blocks + memory.page_cache;
        heap.used_bytes = used.min(heap.arena_bytes);
        heap.free_bytes = heap.arena_bytes - heap.used_bytes;
        heap.parked_bytes = memory.parked;
    }

    #[inline(never)]
    fn budget_stats(&self, stats: &StackStats) -> BudgetStats {
        let memory = &stats.memory;
        let (zones, took) = (self.pages().zones(), &self.deferral.took);
        let budget = zones.budget();
        let Marks { min, low, high } = budget.marks();
        let limit =
            if budget.limit() == u32::MAX { usize::MAX } else { bytes(budget.limit().into()) };
        let used = bytes(budget.used().into());
        let held = memory.parked + memory.empty_slabs + memory.mappings_cached;
        let around = memory.objects + memory.free_in_slabs + memory.around_objects;
        let mut figures = BudgetStats {
            limit,
            min: bytes(min.into()),
            low: bytes(low.into()),
            high: bytes(high.into()),
            used,
            free: limit.saturating_sub(used),
            slab_reclaimable: held,
            slab_unreclaimable: around,
            metadata: stats.metadata.iter().sum::<usize>() + zones.memory().metadata_bytes(),
            direct_reclaims: took.count(),
            free_dirty: memory.free_dirty,
            direct_ns: DirectNs {
                median: took.within(500),
                p999: took.within(999),
                longest: took.within(1000),
            },
            ..BudgetStats::default()
        };
        C::Cache::fill_stats(self, &mut figures);
        figures.available = figures.estimate();
        figures
    }
}
