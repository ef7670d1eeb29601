//! The counts of a cache, summed over nodes and slots.

use super::cache::SlubCache;
use super::era::Era;
use super::node::PartialList;
use super::state::SlabWord;
use crate::slab::one_cache::{LIST, POPS, PUSHES};
use core::iter::successors;
use quarry_mm::frame::{Links, Pfn};
use quarry_mm::slab::SlabStats;
use quarry_sys::percpu::{Lists, SlotIndex};
use quarry_sys::primitive::Ordering;

/// Maximum number of slabs of a node's list that `count_list` reads under the list lock, half from
/// each end; for longer lists it extrapolates (`MAX_PARTIAL_TO_SCAN`, Linux 6.10).
const MAX_SCANNED: u32 = 10_000;

/// Numbers of free objects, of slabs without an object in use, and of slabs that have both free
/// objects and objects in use.
#[derive(Clone, Copy, Default)]
struct FreeCount {
    objects: u64,
    empty_slabs: u64,
    partial_slabs: u64,
}

impl<P: Lists, E: Era> SlubCache<'_, P, E> {
    /// Sums the counts. Each is read by itself: they may not agree. O(used slots + slabs on lists).
    pub(super) fn stats(&self) -> SlabStats {
        let mut stats = SlabStats::default();
        let mut free = FreeCount::default();
        for node in self.nodes() {
            stats.slabs_allocated += node.slabs_allocated.load(Ordering::Relaxed);
            stats.slabs_freed += node.slabs_freed.load(Ordering::Relaxed);
            let list = node.list.lock();
            self.count_list(&list, node.nr_partial(), &mut free);
            drop(list);
            stats.list_lock += node.list.stats();
            stats.slab_lock += node.lock_bit_waits();
        }
        for slot in self.tables.used_slots() {
            let cpu = self.cpu(slot);
            stats.alloc_slow += cpu.alloc_slow.load(Ordering::Relaxed);
            stats.free_slow += cpu.free_slow.load(Ordering::Relaxed);
            stats.refills += cpu.refills.load(Ordering::Relaxed);
            if E::Word::HAS_LOCK {
                stats.slab_lock += cpu.slab_lock_stats();
            } else {
                stats.cmpxchg_fails += cpu.misses.load(Ordering::Relaxed);
            }
            stats.deactivations += cpu.deactivations.load(Ordering::Relaxed);
            if E::CPU_SLAB {
                stats.alloc_fast += self.cell(slot, POPS);
                stats.free_fast += self.cell(slot, PUSHES);
                stats.parked_objects += self.cell(slot, LIST) & 0xf_ffff;
            }
            self.for_each_frozen(slot, |slab| self.count_slab_free(slab, &mut free));
        }
        stats.total_slabs = stats.slabs_allocated.saturating_sub(stats.slabs_freed);
        stats.total_objects = stats.total_slabs * u64::from(self.cache.objects());
        stats.active_objects = stats.total_objects.saturating_sub(free.objects);
        stats.active_slabs = stats.total_slabs.saturating_sub(free.empty_slabs);
        stats.partial_slabs = free.partial_slabs;
        stats
    }

    fn count_slab_free(&self, slab: Pfn, free: &mut FreeCount) {
        let state = self.state(slab);
        free.objects += u64::from(state.free());
        free.empty_slabs += u64::from(state.inuse == 0);
        free.partial_slabs += u64::from(state.inuse > 0 && state.free() > 0);
    }

    fn count_list(&self, list: &PartialList, nr: u32, free: &mut FreeCount) {
        let links = self.links();
        let scanned = nr.min(MAX_SCANNED);
        let mut seen = FreeCount::default();
        let front = list.members(&links);
        let back = successors(list.last(), |slab| links.previous(*slab).get());
        let scanned_back = scanned as usize / 2;
        front
            .take(scanned as usize - scanned_back)
            .chain(back.take(scanned_back))
            .for_each(|slab| self.count_slab_free(slab, &mut seen));
        let scale = |count: u64| count * u64::from(nr) / u64::from(scanned.max(1));
        free.objects += scale(seen.objects);
        free.empty_slabs += scale(seen.empty_slabs);
        free.partial_slabs += scale(seen.partial_slabs);
    }

    /// Visits the slab of a slot's cell and the slabs of the slot's partial list.
    pub(super) fn for_each_frozen(&self, slot: SlotIndex, mut visit: impl FnMut(Pfn)) {
        if let (_, Some(slab)) = self.guard(slot) {
            visit(slab);
        }
        let cpu = self.cpu(slot);
        if cpu.first().is_none() {
            return;
        }
        let _held = self.tables.slot_lock(slot).lock();
        successors(cpu.first(), |slab| self.links().next(*slab).get()).for_each(visit);
    }
}
