//! The CPUs that took the slabs, as a small table of guesses.
//!
//! Entry `i` holds `{part of the slab's number : 16 | slot + 1 : 16}` for one of the slabs that
//! share it. A slot that missed its array and got an object notes itself as the owner of the
//! object's slab. A slab that is not in the table counts as the running CPU's. SLQB reads a word of
//! the slab instead; a table that is small enough to stay in the CPU's own cache is read once per
//! object of a flush.

use crate::frame::{OsArray, Pfn};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU32, Ordering};

/// log2 of the number of entries: 16 KiB.
const BITS: u32 = 12;
/// log2 of the frames of the smallest slab.
const SLAB_SHIFT: u32 = 2;

/// See the module.
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

    /// Notes that `slot` took an object of the slab.
    #[inline]
    pub(super) fn note(&self, slab: Pfn, slot: SlotIndex) {
        let (entry, part) = self.entry(slab);
        let noted = part | (slot.0 + 1) & 0xffff;
        if entry.load(Ordering::Relaxed) != noted {
            entry.store(noted, Ordering::Relaxed);
        }
    }

    /// The slot that took objects of the slab last, as far as the table knows.
    #[inline]
    pub(super) fn of(&self, slab: Pfn) -> Option<SlotIndex> {
        let (entry, part) = self.entry(slab);
        let noted = entry.load(Ordering::Relaxed);
        let slot = (noted & 0xffff).checked_sub(1)?;
        (noted & !0xffff == part).then_some(SlotIndex(slot))
    }
}
