//! The pageblocks of a window: which are taken, and which are mapped.
//!
//! All memory that Quarry hands out lies in one window of addresses, so "is this pointer ours" is
//! one subtraction and one comparison. The arena maps pageblocks when zones and mappings take them,
//! and unmaps them when they come back. It never touches a *foreign mapping*: memory in the window
//! that another part of the process has mapped.
//!
//! Each pageblock has three bits:
//!
//! | taken | mapped | excluded | |
//! |---|---|---|---|
//! | 0 | 0 | 0 | free |
//! | 1 | 1 | 0 | in a zone or a mapping |
//! | 1 | 0 | 0 | taken, and being mapped or unmapped |
//! | 0 | 1 | 0 | free, with contents: the system refused to unmap it, or it is *kept* |
//! | 1 | 0 | 1 | has a foreign mapping, or was lost in a failed move: never touched |
//!
//! Invariants: `nr_taken` counts pageblocks taken and not excluded; `ranges` counts extents of
//! mapped pageblocks (the kernel has at least as many mappings); frames below `span` have metadata.

use super::block_bits::{Bit, BlockBits};
use super::order::{FRAME_SHIFT, PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES};
use super::pfn::{PageblockIndex, Pfn};
use core::ptr::NonNull;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{CountedLock, Guard};
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{
    AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::Release,
};
use quarry_sys::topology::max_map_count;

/// The part of the window in which a search for pageblocks begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A zone takes the lowest free address.
    Zone,
    /// A mapping takes the lowest free address after the first 2 GiB (in a small window, after its
    /// first quarter), or else any. So zones' pageblocks lie together, and mappings can grow.
    Mapping,
}

/// Pageblocks at the start of the window that mappings leave to zones at first.
const ZONE_BLOCKS: u32 = 1024;

/// An extent of pageblocks to search for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The part of the window in which the search begins.
    pub side: Side,
    /// Number of pageblocks of the extent.
    pub count: u32,
    /// The alignment of the extent's address in pageblocks, a power of two.
    pub align: u32,
    /// Free pageblocks that should follow the extent, if possible.
    pub room: u32,
}

/// A window and the bits of its pageblocks.
pub struct Arena {
    os: &'static dyn Os,
    base: NonNull<u8>,
    pageblocks: u32,
    bits: BlockBits,
    lock: CountedLock<()>,
    nr_taken: AtomicUsize,
    ranges: AtomicUsize,
    /// The end of the pageblocks whose metadata is accessible.
    span: AtomicU32,
    /// True if free pageblocks stay mapped, with their memory.
    keeps: AtomicBool,
}

// SAFETY: `base`, the only field that is not Sync by itself, never changes.
unsafe impl Sync for Arena {}
// SAFETY: as for Sync; `base` is bound to no thread.
unsafe impl Send for Arena {}

impl Arena {
    pub(super) fn new(os: &'static dyn Os, base: NonNull<u8>, pageblocks: u32) -> OsResult<Self> {
        Ok(Self {
            os,
            base,
            pageblocks,
            bits: BlockBits::new(os, pageblocks)?,
            lock: CountedLock::new(()),
            nr_taken: AtomicUsize::new(0),
            ranges: AtomicUsize::new(0),
            span: AtomicU32::new(0),
            keeps: AtomicBool::new(false),
        })
    }

    /// Start of the window.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The operating system underneath.
    #[must_use]
    pub fn os(&self) -> &'static dyn Os {
        self.os
    }

    /// Bytes of the window, mapped or not.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pageblocks as usize * PAGEBLOCK_BYTES
    }

    /// Frames of the whole window.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.pageblocks * PAGEBLOCK_FRAMES
    }

    /// Bytes from the base to the end of the frames that have metadata: a span that only grows.
    #[must_use]
    pub fn span_bytes(&self) -> usize {
        self.span_blocks() as usize * PAGEBLOCK_BYTES
    }

    /// Same as [`span_bytes`](Self::span_bytes), in pageblocks.
    #[must_use]
    pub fn span_blocks(&self) -> u32 {
        self.span.load(Relaxed)
    }

    pub(super) fn pageblocks(&self) -> u32 {
        self.pageblocks
    }

    /// Returns whether free pageblocks stay mapped, with their memory.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.keeps.load(Relaxed)
    }

    pub(super) fn set_keeps(&self, keeps: bool) {
        self.keeps.store(keeps, Relaxed);
    }

    /// Pageblocks taken now, by zones and mappings.
    #[must_use]
    pub fn pageblocks_taken(&self) -> usize {
        self.nr_taken.load(Relaxed)
    }

    /// Returns whether a pageblock belongs to a zone or to a mapping.
    #[must_use]
    pub fn is_taken(&self, pageblock: PageblockIndex) -> bool {
        let _held = self.lock.lock();
        self.bits.is_set(Bit::Taken, pageblock.0) && !self.bits.is_set(Bit::Excluded, pageblock.0)
    }

    #[must_use]
    pub(crate) fn is_excluded(&self, pageblock: PageblockIndex) -> bool {
        let _held = self.lock.lock();
        self.bits.is_set(Bit::Excluded, pageblock.0)
    }

    /// The address of a frame.
    #[inline]
    #[must_use]
    pub fn address(&self, pfn: Pfn) -> NonNull<u8> {
        assert!(pfn.0 < self.frames(), "frame outside the window");
        // SAFETY: the offset lies inside the window.
        unsafe { self.base.add(pfn.index() << FRAME_SHIFT) }
    }

    pub(super) fn block_address(&self, block: u32) -> NonNull<u8> {
        self.address(PageblockIndex(block).first())
    }

    /// The frame that holds an address; `None` if it has no metadata, and so is not Quarry's.
    #[inline]
    #[must_use]
    pub fn pfn(&self, address: *const u8) -> Option<Pfn> {
        let offset = (address as usize).wrapping_sub(self.base.as_ptr() as usize);
        (offset < self.span_bytes()).then_some(Pfn((offset >> FRAME_SHIFT) as u32))
    }

    fn start_of(&self, side: Side) -> u32 {
        match side {
            Side::Zone => 0,
            Side::Mapping => ZONE_BLOCKS.min(self.pageblocks / 4),
        }
    }

    /// Takes a free extent: a kept one if there is any. Else, from the start of the wanted side on,
    /// searches for an extent with `room` free pageblocks after it, then for any; then searches the
    /// whole window for any. O(log pageblocks + count / 64), but see
    /// [`BlockBits::find`] for an aligned extent.
    pub(super) fn take(&self, wanted: Wanted) -> Option<u32> {
        let Wanted { side, count, align, room } = wanted;
        let start = self.start_of(side);
        let mut held = self.lock.lock();
        let kept = self.keeps().then(|| self.find_kept(count, align)).flatten();
        let roomy = || self.find(start, count.checked_add(room)?, align);
        let first = kept
            .or_else(|| if room > 0 { roomy() } else { None })
            .or_else(|| self.find(start, count, align))
            .or_else(|| self.find(0, count, align))?;
        self.mark_taken(&mut held, first, count);
        Some(first)
    }

    /// Takes the front of a free extent that is mapped.
    pub(super) fn take_mapped(&self, count: u32, align: u32) -> Option<u32> {
        let mut held = self.lock.lock();
        let first = self.find_kept(count, align)?;
        self.mark_taken(&mut held, first, count);
        Some(first)
    }

    /// Returns whether [`take`](Self::take) would find an extent that is kept.
    pub(crate) fn has_kept(&self, count: u32, align: u32) -> bool {
        let _held = self.lock.lock();
        self.keeps() && self.find_kept(count, align).is_some()
    }

    /// Returns whether all of an extent is free, and mapped.
    pub(crate) fn is_kept(&self, first: PageblockIndex, count: u32) -> bool {
        let _held = self.lock.lock();
        let (first, end) = (first.0, first.0.saturating_add(count));
        self.bits.next(Bit::Taken, true, first, end) == end
            && self.bits.next(Bit::Mapped, false, first, end) == end
    }

    /// The front of the shortest free extent with memory that is long enough. O(pageblocks of the
    /// span / 64 + such extents).
    fn find_kept(&self, count: u32, align: u32) -> Option<u32> {
        let (mut shortest, mut from) = (None, 0);
        while let Some((at, end)) = self.next_kept(from, self.span_blocks()) {
            let start = self.align_up(at, align).filter(|at| at.saturating_add(count) <= end);
            let is_shorter = shortest.is_none_or(|(_, blocks)| end - at < blocks);
            shortest = start.filter(|_| is_shorter).map(|start| (start, end - at)).or(shortest);
            from = end;
        }
        shortest.map(|(start, _)| start)
    }

    /// The first free extent with memory in `from..below`.
    fn next_kept(&self, mut from: u32, below: u32) -> Option<(u32, u32)> {
        let next = |bit, is_set, from| self.bits.next(bit, is_set, from, below);
        while from < below {
            from = next(Bit::Taken, false, next(Bit::Mapped, true, from));
            if from < below && self.bits.is_set(Bit::Mapped, from) {
                let end = next(Bit::Taken, true, from).min(next(Bit::Mapped, false, from));
                return Some((from, end));
            }
        }
        None
    }

    /// Takes the first free pageblocks from `from` on that are mapped; returns their start and end.
    pub(super) fn take_next_kept(&self, from: u32) -> Option<(u32, u32)> {
        let mut held = self.lock.lock();
        let (first, end) = self.next_kept(from, self.pageblocks)?;
        self.mark_taken(&mut held, first, end - first);
        Some((first, end))
    }

    /// Takes an extent if all of it is free and lies below `below`.
    pub(super) fn take_at(&self, first: u32, count: u32, below: u32) -> bool {
        let mut held = self.lock.lock();
        let end = first.checked_add(count).filter(|end| *end <= below.min(self.pageblocks));
        let is_free = end.is_some_and(|end| self.bits.next(Bit::Taken, true, first, end) == end);
        if is_free {
            self.mark_taken(&mut held, first, count);
        }
        is_free
    }

    /// Frees a taken extent, except its excluded pageblocks.
    pub(super) fn release(&self, first: u32, count: u32) {
        let _held = self.lock.lock();
        let end = first + count;
        debug_assert_eq!(self.bits.next(Bit::Taken, false, first, end), end, "given back twice");
        let released = self.bits.release(first, end) as usize;
        self.nr_taken.fetch_sub(released, Relaxed);
    }

    pub(super) fn exclude(&self, block: u32) {
        let mut held = self.lock.lock();
        debug_assert!(
            self.bits.is_set(Bit::Taken, block) && !self.bits.is_set(Bit::Excluded, block)
        );
        self.bits.set(Bit::Excluded, block, block + 1, true);
        self.note_mapped(&mut held, block, block + 1, false);
        self.nr_taken.fetch_sub(1, Relaxed);
    }

    pub(super) fn set_mapped(&self, first: u32, count: u32, is_mapped: bool) {
        self.note_mapped(&mut self.lock.lock(), first, first + count, is_mapped);
    }

    /// The mapped parts of a taken extent, or if `is_mapped` is false the unmapped parts.
    pub(super) fn extents(
        &self,
        is_mapped: bool,
        first: u32,
        count: u32,
    ) -> impl Iterator<Item = (u32, u32)> {
        // No lock is needed: only the owner of a taken extent changes its mapped bits.
        self.bits.extents(Bit::Mapped, is_mapped, first, first + count)
    }

    /// Returns whether the arena may unmap a piece, which may split a kernel mapping. The kernel
    /// limits mappings, so `ranges` must be below 1,024 or below a quarter of `vm.max_map_count`.
    pub(super) fn may_split(&self) -> bool {
        const SURELY: usize = 1024;
        let ranges = self.ranges.load(Relaxed);
        ranges < SURELY || ranges < max_map_count() / 4
    }

    fn mark_taken(&self, _held: &mut Guard<'_, ()>, first: u32, count: u32) {
        let end = first + count;
        debug_assert_eq!(self.bits.next(Bit::Taken, true, first, end), end, "taken twice");
        self.bits.set(Bit::Taken, first, end, true);
        self.nr_taken.fetch_add(count as usize, Relaxed);
    }

    /// Sets or clears the mapped bits of `first..end`, and updates `ranges`.
    fn note_mapped(&self, _held: &mut Guard<'_, ()>, first: u32, end: u32, is_mapped: bool) {
        let is_set = |block| self.bits.is_set(Bit::Mapped, block);
        for (start, end) in self.bits.extents(Bit::Mapped, !is_mapped, first, end) {
            let below = start.checked_sub(1).is_some_and(is_set);
            let neighbours = usize::from(below) + usize::from(is_set(end));
            self.bits.set(Bit::Mapped, start, end, is_mapped);
            let ranges = self.ranges.load(Relaxed);
            // A newly mapped extent and its mapped neighbours become one range.
            let (more, fewer) = if is_mapped { (1, neighbours) } else { (neighbours, 1) };
            self.ranges.store(ranges + more - fewer, Relaxed);
        }
    }

    /// Makes the metadata of at least `end` pageblocks accessible: calls `grow` with `end` rounded
    /// up to a multiple of `section`. If `grow` fails, the span does not change.
    pub(super) fn grow_span(
        &self,
        end: u32,
        section: u32,
        grow: impl FnOnce(u32) -> OsResult<()>,
    ) -> OsResult<()> {
        let _held = self.lock.lock();
        let wanted = end.next_multiple_of(section).min(self.pageblocks);
        if wanted > self.span_blocks() {
            grow(wanted)?;
            self.span.store(wanted, Release);
        }
        Ok(())
    }

    fn find(&self, start: u32, count: u32, align: u32) -> Option<u32> {
        if count == 0 {
            return None;
        }
        self.bits.find(start, count, |block| self.align_up(block, align))
    }

    /// The first pageblock from `block` on whose *address* is a multiple of `align` pageblocks (the
    /// window itself starts at a multiple of two).
    fn align_up(&self, block: u32, align: u32) -> Option<u32> {
        let base = self.base.as_ptr() as usize / PAGEBLOCK_BYTES;
        let aligned = (base + block as usize).next_multiple_of(align as usize);
        u32::try_from(aligned - base).ok()
    }

    /// Visits the arena's lock.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("arena->lock", &self.lock);
    }

    /// Checks the invariants; no other thread may use the arena during the check. Fails with the
    /// first invariant that does not hold.
    pub fn validate(&self) -> Result<(), Broken> {
        let _held = self.lock.lock();
        self.bits.validate()?;
        let arena = Check::of("arena");
        let extents = |bit| self.bits.extents(bit, true, 0, self.pageblocks);
        let blocks = |bit| extents(bit).map(|(first, end)| (end - first) as u64).sum::<u64>();
        let taken = blocks(Bit::Taken) - blocks(Bit::Excluded);
        arena.equal(self.pageblocks_taken() as u64, taken, "nr_taken = taken and not excluded")?;
        let (ranges, mapped) = (self.ranges.load(Relaxed) as u64, extents(Bit::Mapped).count());
        arena.equal(ranges, mapped as u64, "ranges = extents of mapped pageblocks")?;
        for block in extents(Bit::Taken).flat_map(|(at, end)| at..end) {
            let (is_mapped, is_excluded) =
                (self.bits.is_set(Bit::Mapped, block), self.bits.is_set(Bit::Excluded, block));
            let this = arena.at(block);
            this.that(is_mapped != is_excluded, "a taken pageblock is mapped or excluded")?;
            let has_metadata = is_excluded || block < self.span_blocks();
            this.that(has_metadata, "a pageblock in use lies below the span")?;
        }
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for (first, end) in self.bits.extents(Bit::Mapped, true, 0, self.pageblocks) {
            let bytes = (end - first) as usize * PAGEBLOCK_BYTES;
            // SAFETY: the arena mapped it, and code that got a bare pointer into it has promised
            // not to use the pointer after the drop. A part that the OS refuses to unmap stays
            // mapped.
            let _ = unsafe { self.os.unmap(self.block_address(first), bytes) };
        }
    }
}
