//! A small table that guesses which CPU took the objects of a slab.
//!
//! An entry holds `{part of the slab's number : 16 | slot + 1 : 16}` for one of the slabs that
//! share the entry. After a miss a slot records itself as the owner of the slabs whose objects it
//! got. A slab that is not in the table counts as the running CPU's. (SLQB reads a word of the slab
//! instead; this table is small enough to stay in the CPU's cache.)

use quarry_mm::frame::{OsArray, Pfn};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU32, Ordering};

/// log2 of the number of entries, which take 16 KiB.
const BITS: u32 = 12;
/// log2 of the frames of the smallest slab.
const SLAB_SHIFT: u32 = 2;

pub(super) struct Owners {
    entries: OsArray<AtomicU32>,
}

impl Owners {
    pub(super) fn reserve(os: &'static dyn Os) -> OsResult<Self> {
        Ok(Self { entries: OsArray::zeroed(os, 1 << BITS)? })
    }

    pub(super) const fn bytes() -> usize {
        size_of::<AtomicU32>() << BITS
    }

    fn entry(&self, slab: Pfn) -> (&AtomicU32, u32) {
        let number = slab.0 >> SLAB_SHIFT;
        let part = number >> BITS & 0xffff;
        (self.entries.at((number & ((1 << BITS) - 1)) as usize), part << 16)
    }

    #[inline]
    pub(super) fn note(&self, slab: Pfn, slot: SlotIndex) {
        let (entry, part) = self.entry(slab);
        let noted = part | (slot.0 + 1) & 0xffff;
        if entry.load(Ordering::Relaxed) != noted {
            entry.store(noted, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn of(&self, slab: Pfn) -> Option<SlotIndex> {
        let (entry, part) = self.entry(slab);
        let noted = entry.load(Ordering::Relaxed);
        let slot = (noted & 0xffff).checked_sub(1)?;
        (noted & !0xffff == part).then_some(SlotIndex(slot))
    }
}
