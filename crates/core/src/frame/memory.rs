//! The reservation together with all that is recorded of its frames.

use super::{
    Arena, FRAME_BYTES, FrameTable, PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES, PageblockIndex, Pageblocks,
    Side,
};
use quarry_sys::os::{Os, OsError, OsResult};

/// Bytes of metadata per pageblock: frame table and pageblock descriptor.
const PAGEBLOCK_METADATA: usize =
    PAGEBLOCK_FRAMES as usize * FrameTable::BYTES_PER_FRAME + Pageblocks::BYTES_EACH;
const _: () = assert!(
    PAGEBLOCK_METADATA < PAGEBLOCK_FRAMES as usize * 8,
    "frame table and pageblocks stay below 8 bytes per frame"
);

/// The reservation, its frames and its pageblocks.
pub struct Memory {
    arena: Arena,
    frames: FrameTable,
    pageblocks: Pageblocks,
}

impl Memory {
    /// Reserves up to `bytes` of address space and tables for it.
    ///
    /// # Errors
    /// Where not even 64 MiB are to be had, or what the OS says to the tables.
    pub fn reserve(os: &'static dyn Os, bytes: usize) -> OsResult<Self> {
        let mut arena = Arena::reserve(os, bytes)?;
        loop {
            match Self::with_tables(os, arena) {
                Ok(memory) => return Ok(memory),
                // Under a limit of address space the reservation may have taken what its tables
                // need.
                Err((error, bytes)) => match Arena::reserve(os, bytes / 2) {
                    Ok(smaller) if smaller.bytes() < bytes => arena = smaller,
                    _ => return Err(error),
                },
            }
        }
    }

    /// Where a table is refused, the reservation is released: the error, and how large it was.
    fn with_tables(os: &'static dyn Os, arena: Arena) -> Result<Self, (OsError, usize)> {
        let refused = |error| (error, arena.bytes());
        let frames = FrameTable::reserve(os, arena.frames()).map_err(refused)?;
        let pageblocks = Pageblocks::reserve(os, arena.frames()).map_err(refused)?;
        Ok(Self { arena, frames, pageblocks })
    }

    /// The reservation.
    #[inline]
    #[must_use]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// What is recorded of each frame.
    #[inline]
    #[must_use]
    pub fn frames(&self) -> &FrameTable {
        &self.frames
    }

    /// What is recorded of each pageblock.
    #[inline]
    #[must_use]
    pub fn pageblocks(&self) -> &Pageblocks {
        &self.pageblocks
    }

    /// Takes `count` neighbouring pageblocks for a zone, the first one at an even number, with
    /// memory and metadata accessible. All or nothing.
    ///
    /// # Errors
    /// `ENOMEM` where no such run is left, or what the OS says.
    pub fn take_for_zone(&self, count: u32) -> OsResult<PageblockIndex> {
        let first = self.arena.take(&self.frames, Side::Zone, count, 2)?;
        self.pageblocks
            .commit(first, count)
            .and_then(|()| self.arena.commit(first, count))
            .inspect_err(|_| self.arena.give_back(first, count))?;
        Ok(first)
    }

    /// Bytes of metadata for the pageblocks taken now: frame table and pageblock descriptors.
    #[must_use]
    pub fn metadata_bytes(&self) -> usize {
        self.arena.pageblocks_taken() * PAGEBLOCK_METADATA
    }

    /// Bytes of metadata per frame of 4 KiB, in thousandths: `6375` is 6.375.
    #[must_use]
    pub const fn metadata_per_frame_milli() -> usize {
        PAGEBLOCK_METADATA * 1000 / (PAGEBLOCK_BYTES / FRAME_BYTES)
    }
}
