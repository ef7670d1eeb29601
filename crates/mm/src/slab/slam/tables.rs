//! The records of caches and CPUs: arrays of the policy's own, counted as metadata.
//!
//! | array | bytes | per | what |
//! |---|---|---|---|
//! | cells | 128 | slot and cache | [`CpuCache`]; one slot's lie together |
//! | used | 1 | slot | whether any cache has had something to do there |
//! | owners | 4 | 4,096 slabs | [`Owners`] |
//!
//! All are made when the first cache is created, so that a stack with another policy pays nothing.
//! Only pages that are touched take memory.

use super::owners::Owners;
use super::stock::Stock;
use super::traffic::{Miss, Traffic};
use crate::frame::{FreshZero, MetadataKind, OsArray};
use crate::slab::cache::{CacheId, MAX_CACHES};
use crate::slab::context::SlabContext;
use crate::slab::mechanisms::SlamMode;
use core::mem::offset_of;
use quarry_sys::local;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{PerCpu, SlotIndex};
use quarry_sys::primitive::{AtomicU8, AtomicU64, Ordering};

/// One cache's part of one slot: a line for the slot's own CPU, and one that others write, too.
#[repr(C, align(64))]
pub(super) struct CpuCache {
    /// Objects that the CPU has freed beyond its array.
    pub(super) stock: Stock,
    pub(super) traffic: Traffic,
    /// Requests that found the array empty, and frees that found it full, served here.
    pub(super) alloc_slow: AtomicU64,
    pub(super) free_slow: AtomicU64,
    /// Objects that entered and left the array in these slow paths.
    pub(super) batched_in: AtomicU64,
    pub(super) batched_out: AtomicU64,
    /// Objects that others have freed for the CPU.
    pub(super) inbox: Stock,
    /// The rest of an inbox that the CPU has opened; others push in front of the inbox itself.
    pub(super) opened: Stock,
    /// Times that the mode was changed.
    pub(super) changes: AtomicU64,
}

const _: () = assert!(size_of::<CpuCache>() == 128 || cfg!(quarry_model), "two lines");
const _: () = assert!(offset_of!(CpuCache, inbox) == 64 || cfg!(quarry_model), "the second");

// SAFETY: made of atomics whose initial value is 0: an empty chain, mode array, nothing counted.
unsafe impl FreshZero for CpuCache {}

impl CpuCache {
    /// Notes a miss; returns the mode from then on, which is `fixed` if that is given.
    #[inline]
    pub(super) fn note(&self, miss: Miss, fixed: Option<SlamMode>) -> SlamMode {
        let (mode, has_changed) = self.traffic.note(miss, fixed);
        if has_changed {
            local::add(&self.changes, 1);
        }
        mode
    }

    /// Starts as for a new cache: mode array, nothing counted. No bundle waits for the CPU.
    fn restart(&self) {
        self.traffic.reset();
        for counter in
            [&self.alloc_slow, &self.free_slow, &self.batched_in, &self.batched_out, &self.changes]
        {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// All stocks that wait for the CPU, in the order of their use: objects that have just been
    /// freed elsewhere are warmer than a stock.
    pub(super) fn stocks(&self) -> [&Stock; 3] {
        [&self.opened, &self.inbox, &self.stock]
    }
}

/// The arrays.
pub(super) struct Tables {
    cells: OsArray<CpuCache>,
    used: OsArray<AtomicU8>,
    pub(super) owners: Owners,
    /// A bit for each cache whose part is counted as metadata.
    counted: [AtomicU64; MAX_CACHES.div_ceil(64)],
}

impl Tables {
    /// Reserves the arrays for a stack, and counts those that belong to no single cache.
    pub(super) fn reserve<P: PerCpu>(context: &SlabContext<'_, P>) -> OsResult<Self> {
        let (os, slots) = (context.zones.arena().os(), context.percpu.area().slots() as usize);
        let tables = Self {
            cells: OsArray::zeroed(os, MAX_CACHES * slots)?,
            used: OsArray::zeroed(os, slots)?,
            owners: Owners::reserve(os)?,
            counted: [const { AtomicU64::new(0) }; MAX_CACHES.div_ceil(64)],
        };
        context.metadata.count(MetadataKind::CpuSlabs, slots + Owners::bytes());
        Ok(tables)
    }

    /// Takes up a cache: counts its part as metadata, once for each number.
    pub(super) fn take_up<P: PerCpu>(&self, context: &SlabContext<'_, P>, cache: CacheId) {
        self.cpus(cache).for_each(CpuCache::restart);
        let (word, bit) = (&self.counted[cache.index() / 64], 1 << (cache.index() % 64));
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            let bytes = self.used.len() * size_of::<CpuCache>();
            context.metadata.count(MetadataKind::CpuSlabs, bytes);
        }
    }

    /// A cache's part of a slot, which is used from then on.
    #[inline]
    pub(super) fn cpu(&self, cache: CacheId, slot: SlotIndex) -> &CpuCache {
        let used = self.used.at(slot.index());
        if used.load(Ordering::Relaxed) == 0 {
            used.store(1, Ordering::Release);
        }
        self.cells.at(slot.index() * MAX_CACHES + cache.index())
    }

    /// A cache's part of a slot that is used.
    pub(super) fn look(&self, cache: CacheId, slot: SlotIndex) -> &CpuCache {
        self.cells.at(slot.index() * MAX_CACHES + cache.index())
    }

    /// The slots that are used: most slots of a large machine are not, and looking at them would
    /// fault in their pages.
    pub(super) fn slots(&self) -> impl Iterator<Item = SlotIndex> + '_ {
        let is_used = |slot: &SlotIndex| self.used.at(slot.index()).load(Ordering::Acquire) != 0;
        (0..self.used.len() as u32).map(SlotIndex).filter(is_used)
    }

    /// A cache's parts of all slots that are used.
    pub(super) fn cpus(&self, cache: CacheId) -> impl Iterator<Item = &CpuCache> {
        self.slots().map(move |slot| self.look(cache, slot))
    }
}
