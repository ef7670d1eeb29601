//! Writes the figures of a stack for other processes: the body of a record of the statistics page.

use super::budget_stats::BudgetStats;
use super::cached_pages::{CachedPages, StackHost};
use super::instance::{Stack, StackConfig};
use super::locks::LockKinds;
use super::stats::{ServedBy, StackStats};
use crate::frame::{FRAME_BYTES, MetadataKind, NodeId};
use crate::slab::{Cache, SlabStats};
use crate::zone::ZoneStats;
use quarry_record::{
    About, Budget, CacheRow, Draft, ListRow, LockRow, Memory, Name, Sink, ZoneRow, events, flags,
};
use quarry_sys::percpu::{PerCpu, SlotIndex};

/// A `$row`: its fields `$same` are those of `$from` with the same names; the others are given.
macro_rules! row {
    ($row:ident from $from:expr; $($same:ident)+; $($field:ident: $value:expr),* $(,)?) => {
        $row { $($same: $from.$same as _,)+ $($field: $value),* }
    };
}

impl<C: StackConfig> Stack<C> {
    /// Writes the body of a record into `sink`; returns its sum. `about` describes the process.
    /// Makes no allocation or system call; takes one lock at a time. O(caches * slots + pages).
    ///
    /// A thread with the C library's smallest stack, 16 KiB, may call this at the end of a
    /// `malloc`. So each larger section is a separate function: their frames do not add up.
    pub fn fill_record(&self, sink: &mut dyn Sink, about: About) -> u64 {
        let mut draft = Draft::new(sink);
        let stats = self.stats_by_cache(&mut |cache, stats| {
            if stats.slabs_allocated > 0 {
                fill_cache(&mut draft, cache, stats);
            }
        });
        #[cfg(feature = "heaps")]
        self.own_rows(&mut |row| draft.cache(row));
        fill_memory(&mut draft, &stats);
        fill_budget(&mut draft, &stats.budget);
        self.fill_events(&mut draft, &stats);
        for zone in self.pages().zones().all() {
            fill_zone(&mut draft, &zone.stats());
            self.fill_lists(&mut draft, zone.node());
        }
        self.fill_locks(&mut draft);
        draft.finish(self.about(about, &stats))
    }

    #[inline(never)]
    fn fill_locks(&self, draft: &mut Draft<'_>) {
        let mut kinds = LockKinds::NONE;
        kinds.sum(self);
        for kind in kinds.each() {
            draft.lock(&row! {
                LockRow from kind.stats;
                acquisitions contentions hold_samples hold_ns wait_ns;
                name: Name::new(kind.name),
                locks: kind.locks,
            });
        }
    }

    #[inline(never)]
    fn about(&self, about: About, stats: &StackStats) -> About {
        let ServedBy { slab, pages, lru, backend } = stats.served_by;
        let mut flags = about.flags;
        for (flag, is_set) in [
            (flags::HAS_PAGE_CACHE, C::Cache::is_used(self)),
            (flags::HAS_LIMIT, stats.budget.limit != usize::MAX),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        About {
            slab: Name::new(slab),
            pages: Name::new(pages),
            lru: Name::new(lru),
            backend: Name::new(backend),
            flags,
            cpus: self.context().setup.declared_cpus,
            slots_awake: stats.slots.awake as u32,
            nodes: self.pages().zones().all().count() as u32,
            frame_bytes: FRAME_BYTES as u32,
            ..about
        }
    }

    #[inline(never)]
    fn fill_events(&self, draft: &mut Draft<'_>, stats: &StackStats) {
        let mut at = 0;
        let mut event = |name: &'static str, value: u64| {
            debug_assert_eq!(events::names().nth(at), Some(name), "the order of the names");
            at += 1;
            draft.event(value);
        };
        if !C::Cache::visit_vmstat(self, &mut event) {
            events::names().take(events::OF_PAGE_CACHE).for_each(|name| event(name, 0));
        }
        let (lists, budget) = (&stats.page_lists, &stats.budget);
        let (balances, took) = (&budget.balances, &budget.direct_ns);
        let (blocks, mappings) = (&stats.blocks, &stats.mappings);
        let prices = self.pages().memory().prices();
        for (name, value) in [
            ("pcp_allocs", lists.allocs),
            ("pcp_refills", lists.refills),
            ("pcp_refilled_blocks", lists.refilled_blocks),
            ("pcp_frees", lists.frees),
            ("pcp_drains", lists.drains),
            ("pcp_drained_pages", lists.drained_pages),
            ("pcp_bypassed_allocs", lists.bypassed_allocs),
            ("pcp_bypassed_frees", lists.bypassed_frees),
            ("pcp_critical_sections", lists.critical_sections),
            ("pcp_bad_blocks", lists.bad_blocks),
            ("pageoutrun", balances.runs),
            ("balance_reached", balances.reached),
            ("balance_passes", balances.passes),
            ("balance_pages_scanned", balances.pages_scanned),
            ("balance_pages_freed", balances.pages_freed),
            ("slabs_scanned", balances.objects_scanned),
            ("balance_objects_freed", balances.objects_freed),
            ("balance_frames_freed", balances.frames_freed),
            ("allocstall", stats.direct_reclaims),
            ("direct_reclaim", budget.direct_reclaims),
            ("direct_reclaim_p50_ns", took.median),
            ("direct_reclaim_p999_ns", took.p999),
            ("direct_reclaim_max_ns", took.longest),
            ("group_refusals", budget.group_refusals),
            ("block_allocs", blocks.allocated),
            ("block_frees", blocks.freed),
            ("block_resizes", blocks.resized),
            ("mapping_allocs", mappings.allocated),
            ("mapping_frees", mappings.freed),
            ("mapping_resizes", mappings.resized),
            ("slot_barriers", stats.slots.barriers),
            ("huge_page_us", prices.huge_us().unwrap_or(0).into()),
            ("small_pages_us", prices.small_us().unwrap_or(0).into()),
            ("wrong_sizes", stats.wrong_sizes),
            ("slot_interrupted", stats.slots.interrupted),
            ("rseq_registered", stats.slots.registered.into()),
            ("rseq_refused", stats.slots.refused.into()),
            ("pressure_events", stats.relief.0),
            ("pressure_released", stats.relief.1 / FRAME_BYTES as u64),
        ] {
            event(name, value);
        }
    }

    fn fill_lists(&self, draft: &mut Draft<'_>, node: NodeId) {
        let batch = self.pages().pcp_batch();
        for slot in (0..self.percpu().area().slots()).map(SlotIndex) {
            let counters = self.pages().pcp_counters(slot);
            if counters.refills > 0 || counters.frees > 0 {
                let tuning = self.pages().pcp_tuning(slot, node);
                draft.list(&ListRow {
                    slot: slot.0,
                    node: node.0.into(),
                    count: self.pages().listed_frames(slot, node),
                    high: tuning.high,
                    batch,
                    reserved: 0,
                });
            }
        }
    }
}

#[inline(never)]
fn fill_cache(draft: &mut Draft<'_>, cache: &Cache, stats: &SlabStats) {
    draft.cache(&row! {
        CacheRow from stats;
        active_objects total_objects parked_objects active_slabs total_slabs partial_slabs
        alloc_fast alloc_slow free_fast free_slow
        slabs_allocated refills deactivations cmpxchg_fails;
        name: Name::new(core::str::from_utf8(cache.label().as_bytes()).unwrap_or("?")),
        object_bytes: cache.object_bytes() as u32,
        stride: cache.stride() as u32,
        slab_objects: cache.objects(),
        slab_frames: cache.order().frames(),
    });
}

#[inline(never)]
fn fill_memory(draft: &mut Draft<'_>, stats: &StackStats) {
    let metadata = |kind| stats.metadata_bytes(kind) as u64;
    let (heap, slots) = (&stats.heap, &stats.slots);
    draft.memory(&row! {
        Memory from stats.memory;
        objects parked free_in_slabs empty_slabs around_objects blocks page_cache withheld
        page_lists free_dirty free_zero mappings mappings_cached;
        metadata_sheaves: metadata(MetadataKind::Sheaves),
        metadata_slab_headers: metadata(MetadataKind::SlabHeaders),
        metadata_cpu_slabs: metadata(MetadataKind::CpuSlabs),
        metadata_cached_pages: metadata(MetadataKind::CachedPages),
        metadata_other: metadata(MetadataKind::Other),
        address_space: heap.address_space_bytes as u64,
        arena: heap.arena_bytes as u64,
        used: heap.used_bytes as u64,
        free: heap.free_bytes as u64,
        free_objects: heap.free_objects as u64,
        parked_objects: heap.parked_objects as u64,
        live_mappings: heap.mappings as u64,
        slots_room: slots.room_bytes as u64,
        slots_held: slots.held_bytes as u64,
    });
}

#[inline(never)]
fn fill_budget(draft: &mut Draft<'_>, budget: &BudgetStats) {
    let has_limit = budget.limit != usize::MAX;
    draft.budget(&row! {
        Budget from budget;
        min low high used file dirty writeback pinned
        slab_reclaimable shrinkable slab_unreclaimable pressure;
        limit: if has_limit { budget.limit as u64 } else { u64::MAX },
        available: if has_limit { budget.available as u64 } else { u64::MAX },
    });
}

#[inline(never)]
fn fill_zone(draft: &mut Draft<'_>, stats: &ZoneStats) {
    draft.zone(&row! {
        ZoneRow from stats;
        managed free dirty in_extents boost;
        node: stats.node.0.into(),
        high_atomic: stats.reserved_high_atomic,
        min: stats.marks.min,
        low: stats.marks.low,
        high: stats.marks.high,
        free_blocks: stats.nr_free,
        taken_calls: stats.taken.calls,
        taken_blocks: stats.taken.blocks,
        taken_frames: stats.taken.frames,
        put_calls: stats.put.calls,
        put_blocks: stats.put.blocks,
        put_frames: stats.put.frames,
        claimed: stats.fallbacks.claimed,
        stolen: stats.fallbacks.stolen,
    });
}
