//! The reservation: one range of address space, handed out in runs of pageblocks.
//!
//! Zones take runs from the low end and keep them; large mappings take them from the upper part and
//! give them back. Everything Quarry hands out lies in here, so "is this pointer ours" is one
//! subtraction and one comparison.
//!
//! Invariant: bit `i` of the map is set iff pageblock `i` belongs to a zone or to a mapping.

use super::{
    Access, FRAME_SHIFT, FrameTable, OsArray, PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES, PageblockIndex,
    Pfn,
};
use core::ptr::NonNull;
use quarry_sys::lock::{CountedLock, ForkLock, LockStats};
use quarry_sys::os::{Os, OsError, OsResult};
use quarry_sys::primitive::{AtomicU64, AtomicUsize, Ordering};

/// Which end of the reservation a run is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Zones: lowest address first.
    Zone,
    /// Mappings: the upper three quarters, lowest address first, then anywhere.
    Mapping,
}

/// The smallest reservation that is worth starting with.
const SMALLEST_BYTES: usize = 64 << 20;

/// Address space with a map of what is taken.
pub struct Arena {
    os: &'static dyn Os,
    base: NonNull<u8>,
    pageblocks: u32,
    /// One bit per pageblock, guarded by `lock`.
    map: OsArray<AtomicU64>,
    lock: CountedLock<()>,
    taken: AtomicUsize,
}

// SAFETY: the base, which alone is not Sync by itself, never changes.
unsafe impl Sync for Arena {}
// SAFETY: as for Sync.
unsafe impl Send for Arena {}

impl Arena {
    /// Reserves `bytes` of address space, or the largest half, quarter.. of it that is to be had.
    ///
    /// # Errors
    /// Where not even 64 MiB are to be had.
    pub fn reserve(os: &'static dyn Os, bytes: usize) -> OsResult<Self> {
        let mut bytes = bytes.next_multiple_of(PAGEBLOCK_BYTES).max(SMALLEST_BYTES);
        let base = loop {
            // Blocks of order 10 are aligned in memory as they are in frame numbers.
            match os.reserve(bytes, 2 * PAGEBLOCK_BYTES) {
                Ok(base) => break base,
                Err(error) if bytes <= SMALLEST_BYTES => return Err(error),
                Err(_) => bytes = (bytes / 2).next_multiple_of(PAGEBLOCK_BYTES),
            }
        };
        let pageblocks = (bytes / PAGEBLOCK_BYTES) as u32;
        let words = pageblocks.div_ceil(64) as usize;
        let map = OsArray::reserve(os, words, Access::Writable)
            // SAFETY: the reservation of above, which nobody knows yet.
            .inspect_err(|_| unsafe { os.release(base, bytes) })?;
        let lock = CountedLock::new(());
        Ok(Self { os, base, pageblocks, map, lock, taken: AtomicUsize::new(0) })
    }

    /// Start of the reservation.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The operating system underneath.
    #[must_use]
    pub fn os(&self) -> &'static dyn Os {
        self.os
    }

    /// Bytes of address space.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pageblocks as usize * PAGEBLOCK_BYTES
    }

    /// Frames of the whole reservation.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.pageblocks * PAGEBLOCK_FRAMES
    }

    /// Pageblocks taken now, by zones and mappings.
    #[must_use]
    pub fn pageblocks_taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether a pageblock belongs to a zone or to a mapping.
    #[must_use]
    pub fn is_taken(&self, pageblock: PageblockIndex) -> bool {
        let _held = self.lock.lock();
        self.is_marked(pageblock.0)
    }

    /// The address of a frame.
    #[inline]
    #[must_use]
    pub fn address(&self, pfn: Pfn) -> NonNull<u8> {
        assert!(pfn.0 < self.frames(), "frame outside the reservation");
        // SAFETY: the offset lies inside the reservation.
        unsafe { self.base.add(pfn.index() << FRAME_SHIFT) }
    }

    /// The frame that holds an address, if it is ours.
    #[inline]
    #[must_use]
    pub fn pfn(&self, address: *const u8) -> Option<Pfn> {
        let offset = (address as usize).wrapping_sub(self.base.as_ptr() as usize);
        (offset < self.bytes()).then_some(Pfn((offset >> FRAME_SHIFT) as u32))
    }

    /// Takes `count` neighbouring pageblocks, the first one at an address that is a multiple of
    /// `align` pageblocks (a power of two), with writable metadata; the memory itself is still
    /// inaccessible. O(pageblocks / 64).
    ///
    /// # Errors
    /// `ENOMEM` where no such run is left, or what the OS says.
    pub fn take(
        &self,
        frames: &FrameTable,
        side: Side,
        count: u32,
        align: u32,
    ) -> OsResult<PageblockIndex> {
        let first = {
            let _held = self.lock.lock();
            let start = if side == Side::Mapping { self.pageblocks / 4 } else { 0 };
            let first = self
                .find(start, count, align)
                .or_else(|| self.find(0, count, align))
                .ok_or(OsError(libc::ENOMEM))?;
            (first..first + count).for_each(|block| self.mark(block, true));
            self.taken.fetch_add(count as usize, Ordering::Relaxed);
            PageblockIndex(first)
        };
        if let Err(error) = frames.commit(first.first(), count * PAGEBLOCK_FRAMES) {
            self.give_back(first, count);
            return Err(error);
        }
        Ok(first)
    }

    /// Makes the memory of a run that was taken accessible: where the system refuses, in place of
    /// what is accessible and taken by nobody.
    ///
    /// # Errors
    /// What the OS says the second time.
    pub fn commit(&self, first: PageblockIndex, count: u32) -> OsResult<()> {
        let commit =
            || self.os.commit(self.address(first.first()), count as usize * PAGEBLOCK_BYTES);
        commit().or_else(|_| {
            self.decommit_free();
            commit()
        })
    }

    /// Takes access to all that nobody has taken away: it was purged when it was given back, and
    /// counts in a limit of data still. O(pageblocks / 64 + runs that are free).
    fn decommit_free(&self) {
        let _held = self.lock.lock();
        let mut first = self.skip_taken_from(0);
        while first < self.pageblocks {
            let end = self.skip_free_from(first);
            let bytes = (end - first) as usize * PAGEBLOCK_BYTES;
            // What stays accessible is only counted.
            let _ = self.os.decommit(self.address(PageblockIndex(first).first()), bytes);
            first = self.skip_taken_from(end);
        }
    }

    /// Gives a run back. Its memory has been purged.
    pub fn give_back(&self, first: PageblockIndex, count: u32) {
        let _held = self.lock.lock();
        (first.0..first.0 + count).for_each(|block| self.mark(block, false));
        self.taken.fetch_sub(count as usize, Ordering::Relaxed);
    }

    /// Takes the `count` pageblocks from `first` on if all are free: a mapping that grows in place.
    ///
    /// # Errors
    /// `ENOMEM` where one of them is taken, or what the OS says.
    pub fn take_at(&self, frames: &FrameTable, first: PageblockIndex, count: u32) -> OsResult<()> {
        {
            let _held = self.lock.lock();
            let end = first.0.checked_add(count).filter(|end| *end <= self.pageblocks);
            let free = end.is_some_and(|end| (first.0..end).all(|block| !self.is_marked(block)));
            if !free {
                return Err(OsError(libc::ENOMEM));
            }
            (first.0..first.0 + count).for_each(|block| self.mark(block, true));
            self.taken.fetch_add(count as usize, Ordering::Relaxed);
        }
        frames
            .commit(first.first(), count * PAGEBLOCK_FRAMES)
            .map(|_| ())
            .inspect_err(|_| self.give_back(first, count))
    }

    fn find(&self, start: u32, count: u32, align: u32) -> Option<u32> {
        let mut candidate = self.align_up(start, align)?;
        while count != 0 && candidate.checked_add(count)? <= self.pageblocks {
            match (candidate..candidate + count).rev().find(|block| self.is_marked(*block)) {
                None => return Some(candidate),
                Some(last) => candidate = self.align_up(self.skip_taken(last), align)?,
            }
        }
        None
    }

    /// The first block from `block` on whose *address* is a multiple of `align` pageblocks: the
    /// reservation itself starts at a multiple of two.
    fn align_up(&self, block: u32, align: u32) -> Option<u32> {
        let base = self.base.as_ptr() as usize / PAGEBLOCK_BYTES;
        let aligned = (base + block as usize).next_multiple_of(align as usize);
        u32::try_from(aligned - base).ok()
    }

    /// The first block after `block` that is not taken.
    fn skip_taken(&self, block: u32) -> u32 {
        self.skip_taken_from(block + 1)
    }

    /// The first block from `next` on that is not taken, skipping whole words of taken ones.
    fn skip_taken_from(&self, mut next: u32) -> u32 {
        while next < self.pageblocks {
            if next.is_multiple_of(64) && self.map_word(next).load(Ordering::Relaxed) == u64::MAX {
                next += 64;
            } else if self.is_marked(next) {
                next += 1;
            } else {
                break;
            }
        }
        next
    }

    /// The first block from `next` on that is taken, or the end, skipping whole words of free ones.
    fn skip_free_from(&self, mut next: u32) -> u32 {
        while next < self.pageblocks && !self.is_marked(next) {
            let is_free_word =
                next.is_multiple_of(64) && self.map_word(next).load(Ordering::Relaxed) == 0;
            next += if is_free_word { 64 } else { 1 };
        }
        next.min(self.pageblocks)
    }

    fn map_word(&self, block: u32) -> &AtomicU64 {
        self.map.at(block as usize / 64)
    }

    fn is_marked(&self, block: u32) -> bool {
        self.map_word(block).load(Ordering::Relaxed) >> (block % 64) & 1 == 1
    }

    fn mark(&self, block: u32, taken: bool) {
        let word = self.map_word(block);
        let bit = 1u64 << (block % 64);
        let old = word.load(Ordering::Relaxed);
        debug_assert_eq!(old & bit != 0, !taken, "pageblock taken or given back twice");
        word.store(if taken { old | bit } else { old & !bit }, Ordering::Relaxed);
    }

    /// Counters of the arena's lock.
    #[must_use]
    pub fn lock_stats(&self) -> LockStats {
        self.lock.stats()
    }

    /// The lock of the map, for `fork`.
    #[must_use]
    pub fn fork_lock(&self) -> &dyn ForkLock {
        &self.lock
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the whole reservation of `reserve`. Whoever holds an address in it got a bare
        // pointer, and has promised not to use it longer than the arena.
        unsafe { self.os.release(self.base, self.bytes()) };
    }
}
