//! The window, its frames, and their descriptors.
//!
//! ```text
//! | <- links | kinds ->      <- states | pageblock descriptors -> | frames -> |
//!            ^ first edge              ^ second edge              ^ base of the arena
//! ```
//! Each part has addresses for all frames of the arena. The arena maps frames when they are taken;
//! a table is mapped from its edge at least to the entry of the last frame that was ever in use.

use super::arena::{Arena, Side, Wanted};
use super::order::{FRAME_BYTES, PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES};
use super::pageblock::{Faults, Pageblocks};
use super::pfn::PageblockIndex;
use super::prices::Prices;
use super::table::FrameTable;
use super::window::Window;
use quarry_sys::os::{NotMoved, Os, OsError, OsResult};

const PAGEBLOCK_METADATA: usize =
    PAGEBLOCK_FRAMES as usize * FrameTable::BYTES_PER_FRAME + Pageblocks::BYTES_EACH;
const _: () = assert!(
    PAGEBLOCK_METADATA < PAGEBLOCK_FRAMES as usize * 8,
    "frame table and pageblocks stay below 8 bytes per frame"
);
/// Pageblocks whose metadata becomes accessible in one step: 64 MiB of memory, 122 KiB of metadata.
const SECTION_BLOCKS: u32 = 32;
const SMALLEST_BYTES: usize = 64 << 20;

/// An edge is where two tables begin. It lies in the middle of the 2 MiB that one page table
/// covers, so that the first pages on both sides share the page table.
const EDGE_OFFSET: usize = 1 << 20;

/// An extent that was taken from the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its first pageblock.
    pub first: PageblockIndex,
    /// True if all of it is known to be zero.
    pub zeroed: bool,
}

/// The window and its frames. Fields drop in this order, so the window is given up last.
pub struct Memory {
    arena: Arena,
    frames: FrameTable,
    pageblocks: Pageblocks,
    prices: Prices,
    _window: Window,
}

impl Memory {
    /// Chooses a window for `bytes` of frames, or if addresses are scarce, for half of `bytes`, a
    /// quarter and so on. Maps only the table of the bits of pageblocks ([`Arena`]).
    ///
    /// # Errors
    /// If there are not even 64 MiB of addresses, or no memory for the bits.
    pub fn reserve(os: &'static dyn Os, bytes: usize) -> OsResult<Self> {
        let mut bytes = bytes.next_multiple_of(PAGEBLOCK_BYTES).max(SMALLEST_BYTES);
        loop {
            match Self::with_bytes(os, bytes) {
                Err(_) if bytes > SMALLEST_BYTES => {
                    bytes = (bytes / 2).next_multiple_of(PAGEBLOCK_BYTES).max(SMALLEST_BYTES);
                }
                done => return done,
            }
        }
    }

    fn with_bytes(os: &'static dyn Os, bytes: usize) -> OsResult<Self> {
        // With this alignment, blocks of order 10 are aligned in memory too.
        let align = 2 * PAGEBLOCK_BYTES;
        let pageblocks = (bytes / PAGEBLOCK_BYTES) as u32;
        let frames = pageblocks * PAGEBLOCK_FRAMES;
        let [links, kinds, states] = FrameTable::spans(os, frames);
        let descriptors = Pageblocks::span(os, pageblocks);
        let links = (links + EDGE_OFFSET).next_multiple_of(align);
        let tables = links + kinds + states + descriptors + align;
        let window = Window::choose(os, tables.next_multiple_of(align) + bytes, align)?;
        let first = links - EDGE_OFFSET;
        let second = first + kinds + states;
        let base = (second + descriptors).next_multiple_of(align);
        let [first, second, base] = [first, second, base].map(|offset| window.at(offset));
        Ok(Self {
            arena: Arena::new(os, base, pageblocks)?,
            frames: FrameTable::new(os, first, second, frames),
            pageblocks: Pageblocks::new(os, second, pageblocks),
            prices: Prices::default(),
            _window: window,
        })
    }

    /// The pageblocks of the window.
    #[inline]
    #[must_use]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The descriptors of frames.
    #[inline]
    #[must_use]
    pub fn frames(&self) -> &FrameTable {
        &self.frames
    }

    /// The descriptors of pageblocks.
    #[inline]
    #[must_use]
    pub fn pageblocks(&self) -> &Pageblocks {
        &self.pageblocks
    }

    #[must_use]
    pub(crate) fn prices(&self) -> &Prices {
        &self.prices
    }

    /// Takes `count` neighbouring pageblocks for a zone, or none; the first has an even number.
    pub(crate) fn take_for_zone(&self, count: u32) -> OsResult<Taken> {
        self.take(Wanted { side: Side::Zone, count, align: 2, room: 0 })
    }

    /// Takes free neighbouring pageblocks, maps them, and makes their metadata accessible.
    ///
    /// # Errors
    /// `ENOMEM` where there is no such extent, or the error of the OS.
    pub fn take(&self, mut wanted: Wanted) -> OsResult<Taken> {
        loop {
            let first = self.arena.take(wanted).ok_or(OsError(libc::ENOMEM))?;
            let is_behind = first + wanted.count > self.arena.span_blocks();
            let zeroed = self.arena.extents(true, first, wanted.count).next().is_none();
            match self.make_ready(first, wanted.count) {
                Ok(()) => return Ok(Taken { first: PageblockIndex(first), zeroed }),
                // The foreign pageblocks are excluded now, so the next search passes over them.
                Err(OsError(libc::EEXIST)) => {}
                // The OS refused more metadata, but lower addresses may have some: search there.
                Err(_) if is_behind && wanted.side == Side::Mapping => wanted.side = Side::Zone,
                // The process may have as many mappings as it may. What was not unmapped is there.
                Err(error) => {
                    let first = self.arena.take_mapped(wanted.count, wanted.align).ok_or(error)?;
                    return Ok(Taken { first: PageblockIndex(first), zeroed: false });
                }
            }
        }
    }

    /// Extends a taken extent by `more` free pageblocks after it, in one kernel mapping if it can;
    /// but no huge pages come in there unasked (`huge`). Returns whether they are zero.
    ///
    /// # Errors
    /// `ENOMEM` where not all are free, or the error of the OS; the extent is unchanged then.
    pub fn extend(
        &self,
        first: PageblockIndex,
        count: u32,
        more: u32,
        huge: bool,
    ) -> OsResult<bool> {
        let end = first.0 + count;
        if !self.arena.take_at(end, more, self.arena.pageblocks()) {
            return Err(OsError(libc::ENOMEM));
        }
        let bytes = |blocks: u32| blocks as usize * PAGEBLOCK_BYTES;
        let address = self.arena.block_address(first.0);
        let is_fresh = self.arena.extents(true, end, more).next().is_none();
        let ends_huge = || self.pageblocks.at(PageblockIndex(end - 1)).faults().is_huge();
        if count > 0
            && is_fresh
            && (huge || !ends_huge())
            && self.arena.os().extend(address, bytes(count), bytes(count + more)).is_ok()
        {
            self.arena.set_mapped(end, more, true);
        }
        self.make_ready(end, more).map(|()| is_fresh)
    }

    /// Maps a taken extent and makes its metadata accessible, or gives the extent back.
    fn make_ready(&self, first: u32, count: u32) -> OsResult<()> {
        let mut pieces = self.arena.extents(false, first, count);
        pieces
            .try_for_each(|(start, end)| self.map_piece(start, end - start))
            .and_then(|()| self.grow_tables(first + count))
            .inspect_err(|_| self.give_back(PageblockIndex(first), count))
    }

    /// Maps a piece. Excludes its pageblocks with foreign mappings, and fails with `EEXIST` then.
    fn map_piece(&self, first: u32, count: u32) -> OsResult<()> {
        let arena = &self.arena;
        match arena.os().map(arena.block_address(first), count as usize * PAGEBLOCK_BYTES) {
            Ok(()) => {
                arena.set_mapped(first, count, true);
                Ok(())
            }
            Err(OsError(libc::EEXIST)) if count > 1 => {
                let (low, high) = (count / 2, count - count / 2);
                let of_low = self.map_piece(first, low);
                self.map_piece(first + low, high).and(of_low).and(Err(OsError(libc::EEXIST)))
            }
            Err(OsError(libc::EEXIST)) => {
                arena.exclude(first);
                Err(OsError(libc::EEXIST))
            }
            refused => refused,
        }
    }

    /// Makes the metadata of pageblocks `0..end` accessible. If a foreign mapping lies where a
    /// table has to grow, fails with `ENOMEM`, not `EEXIST`, because a table cannot pass over it.
    fn grow_tables(&self, end: u32) -> OsResult<()> {
        if end <= self.arena.span_blocks() {
            return Ok(());
        }
        self.arena.grow_span(end, SECTION_BLOCKS, |pageblocks| {
            let frames = self.frames.grow(pageblocks * PAGEBLOCK_FRAMES);
            frames
                .and_then(|()| self.pageblocks.grow(pageblocks))
                .map_err(|_| OsError(libc::ENOMEM))
        })
    }

    /// Frees the pageblocks of an extent, and unmaps them unless all memory is kept.
    pub fn give_back(&self, first: PageblockIndex, count: u32) {
        if self.arena.keeps() {
            return self.arena.release(first.0, count);
        }
        self.unmap(first, count);
    }

    /// Chooses whether the memory of free pageblocks stays.
    pub(crate) fn set_keeps(&self, keeps: bool) {
        self.arena.set_keeps(keeps);
    }

    /// Unmaps the free pageblocks whose memory was kept; returns the bytes.
    pub(crate) fn give_back_kept(&self) -> usize {
        let (mut bytes, mut from) = (0, 0);
        while let Some((first, end)) = self.arena.take_next_kept(from) {
            self.unmap(PageblockIndex(first), end - first);
            bytes += (end - first) as usize * PAGEBLOCK_BYTES;
            from = end;
        }
        bytes
    }

    /// Unmaps an extent and frees its pageblocks; their contents are lost. If the system refuses to
    /// unmap it, or the process might then have too many mappings (`Arena::may_split`), purges the
    /// extent and leaves it mapped.
    fn unmap(&self, first: PageblockIndex, count: u32) {
        let arena = &self.arena;
        for (start, end) in arena.extents(true, first.0, count) {
            let (address, bytes) =
                (arena.block_address(start), (end - start) as usize * PAGEBLOCK_BYTES);
            // SAFETY: the extent is mapped; the caller, which has taken it, gives it up.
            if arena.may_split() && unsafe { arena.os().unmap(address, bytes) }.is_ok() {
                self.note_unmapped(start, end);
                continue;
            }
            self.note_purged(start, end);
            if arena.os().purge(address, bytes).is_err() {
                // The OS does not purge locked pages, so they are set to zero here.
                // SAFETY: the extent is mapped; the caller, which has taken it, gives it up.
                unsafe { address.as_ptr().write_bytes(0, bytes) };
            }
        }
        arena.release(first.0, count);
    }

    /// Notes that taken pageblocks are no longer mapped. Unmapping makes the kernel forget all
    /// advice on huge pages for them, so the zone has to give the advice again.
    fn note_unmapped(&self, first: u32, end: u32) {
        self.arena.set_mapped(first, end - first, false);
        // Pageblocks after the span were mapped, but the system refused memory for their metadata.
        for block in first..end.min(self.arena.span_blocks()) {
            let pageblock = self.pageblocks.at(PageblockIndex(block));
            // Without this test, unmapping a large mapping would write to all of its descriptors.
            if pageblock.faults() != Faults::Plain {
                pageblock.set_faults(Faults::Plain);
            }
        }
    }

    pub(crate) fn note_purged(&self, first: u32, end: u32) {
        (first..end.min(self.arena.span_blocks()))
            .for_each(|block| self.pageblocks.at(PageblockIndex(block)).went_whole());
    }

    /// Moves the pages of the extent `from` (`from.1` pageblocks from `from.0` on) to the front of
    /// the extent `to`, which is at least as long and loses its contents. Frees `from`.
    ///
    /// # Errors
    /// [`NotMoved::Unchanged`] if no page moved: the caller has to copy them, or to give `to` back;
    /// [`NotMoved::Lost`] if `to` may belong to other code: it is excluded from now on.
    ///
    /// # Safety
    /// The caller has taken both extents, they do not overlap, and no other task uses them.
    pub(crate) unsafe fn move_extent(
        &self,
        from: (PageblockIndex, u32),
        to: (PageblockIndex, u32),
    ) -> Result<(), NotMoved> {
        let piece = |(first, count): (PageblockIndex, u32)| {
            (self.arena.block_address(first.0), count as usize * PAGEBLOCK_BYTES)
        };
        // SAFETY: taken extents are mapped; the rest is the caller's promise.
        let moved = unsafe { self.arena.os().move_pages(piece(from), piece(to)) };
        match moved {
            Ok(()) => {
                self.note_unmapped(from.0.0, from.0.0 + from.1);
                self.arena.release(from.0.0, from.1);
            }
            Err(NotMoved::Lost) => (to.0.0..to.0.0 + to.1).for_each(|at| self.arena.exclude(at)),
            Err(NotMoved::Unchanged) => {}
        }
        moved
    }

    /// Bytes of metadata for the pageblocks taken now: frame table and pageblock descriptors.
    #[must_use]
    pub fn metadata_bytes(&self) -> usize {
        self.arena.pageblocks_taken() * PAGEBLOCK_METADATA
    }

    #[must_use]
    pub(crate) const fn metadata_per_frame_milli() -> usize {
        PAGEBLOCK_METADATA * 1000 / (PAGEBLOCK_BYTES / FRAME_BYTES)
    }
}
