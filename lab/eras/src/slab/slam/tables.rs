//! The policy's state of caches and CPUs, in plain arrays that count as metadata.
//!
//! | array | entries | bytes of each | what |
//! |---|---|---|---|
//! | cells | slots * caches | 128 | [`CpuCache`]; those of a slot lie together |
//! | used | slots | 1 | whether any cache has used the slot |
//! | owners | 4,096 | 4 | [`Owners`] |
//!
//! The arrays are made when the first cache is created. Only pages that are touched take memory.

use super::owners::Owners;
use super::stock::Stock;
use super::traffic::{Miss, Traffic};
use crate::slab::mechanisms::SlamMode;
use core::mem::offset_of;
use quarry_mm::frame::{FreshZero, MetadataKind, OsArray};
use quarry_mm::slab::{CacheId, MAX_CACHES, SlabContext};
use quarry_sys::local;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{PerCpu, SlotIndex};
use quarry_sys::primitive::{AtomicU8, AtomicU64, Ordering};

/// The state of one cache in one slot: a cache line that its CPU writes, and one for all CPUs.
#[repr(C, align(64))]
pub(super) struct CpuCache {
    /// Objects that the CPU has freed, and for which its array had no room.
    pub(super) stock: Stock,
    pub(super) traffic: Traffic,
    /// Requests and frees that stocks served after a miss.
    pub(super) alloc_slow: AtomicU64,
    pub(super) free_slow: AtomicU64,
    /// Objects that these requests and frees moved into and out of the array in batches.
    pub(super) batched_in: AtomicU64,
    pub(super) batched_out: AtomicU64,
    /// Objects that other CPUs have freed for this CPU.
    pub(super) inbox: Stock,
    /// The rest of an inbox that the CPU has taken from.
    pub(super) opened: Stock,
    /// Number of changes of the mode.
    pub(super) changes: AtomicU64,
}

const _: () = assert!(size_of::<CpuCache>() == 128 || cfg!(quarry_model), "two lines");
const _: () = assert!(offset_of!(CpuCache, inbox) == 64 || cfg!(quarry_model), "the second");

// SAFETY: all fields are atomics, for which 0 is valid: an empty chain, mode array, counts of 0.
unsafe impl FreshZero for CpuCache {}

impl CpuCache {
    /// Notes a miss; returns the mode from then on: `fixed` if given.
    #[inline]
    pub(super) fn note(&self, miss: Miss, fixed: Option<SlamMode>) -> SlamMode {
        let (mode, has_changed) = self.traffic.note(miss, fixed);
        if has_changed {
            local::add(&self.changes, 1);
        }
        mode
    }

    /// Resets this for a new cache: mode array, counts of 0. The stocks are empty already.
    fn restart(&self) {
        self.traffic.reset();
        for counter in
            [&self.alloc_slow, &self.free_slow, &self.batched_in, &self.batched_out, &self.changes]
        {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// All stocks in the order of their use: first objects that other CPUs freed, which are warmer.
    pub(super) fn stocks(&self) -> [&Stock; 3] {
        [&self.opened, &self.inbox, &self.stock]
    }
}

pub(super) struct Tables {
    cells: OsArray<CpuCache>,
    used: OsArray<AtomicU8>,
    pub(super) owners: Owners,
    /// A bit for each cache that is counted as metadata.
    counted: [AtomicU64; MAX_CACHES.div_ceil(64)],
}

impl Tables {
    /// Reserves the arrays, and counts those that belong to no single cache.
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

    /// Prepares for a new cache: counts its metadata, once for each number.
    pub(super) fn take_up<P: PerCpu>(&self, context: &SlabContext<'_, P>, cache: CacheId) {
        self.cpus(cache).for_each(CpuCache::restart);
        let (word, bit) = (&self.counted[cache.index() / 64], 1 << (cache.index() % 64));
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            let bytes = self.used.len() * size_of::<CpuCache>();
            context.metadata.count(MetadataKind::CpuSlabs, bytes);
        }
    }

    /// A cache's state in a slot, which is used from then on.
    #[inline]
    pub(super) fn cpu(&self, cache: CacheId, slot: SlotIndex) -> &CpuCache {
        let used = self.used.at(slot.index());
        if used.load(Ordering::Relaxed) == 0 {
            used.store(1, Ordering::Release);
        }
        self.cells.at(slot.index() * MAX_CACHES + cache.index())
    }

    /// A cache's state in a slot that is used.
    pub(super) fn look(&self, cache: CacheId, slot: SlotIndex) -> &CpuCache {
        self.cells.at(slot.index() * MAX_CACHES + cache.index())
    }

    /// The slots that are used. Looking at unused slots would fault in their pages.
    pub(super) fn slots(&self) -> impl Iterator<Item = SlotIndex> + '_ {
        let is_used = |slot: &SlotIndex| self.used.at(slot.index()).load(Ordering::Acquire) != 0;
        (0..self.used.len() as u32).map(SlotIndex).filter(is_used)
    }

    pub(super) fn cpus(&self, cache: CacheId) -> impl Iterator<Item = &CpuCache> {
        self.slots().map(move |slot| self.look(cache, slot))
    }
}
