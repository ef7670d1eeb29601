//! The bits of the pageblocks of a window, and the search for free extents. In this file a *block*
//! is a pageblock.
//!
//! An *entry* is four words for 64 blocks: three hold the three bits of each block, the fourth may
//! hold a summary. Small programs use one entry. A *group* is 16 entries, a *region* 32 groups;
//! both are *units*. A window of 8 TiB has 128 regions. A unit's summary holds the lengths of three
//! extents of free blocks: the longest, and those at the unit's beginning and end. So a search
//! passes over units that cannot hold the wanted extent. The summaries of a region's groups are the
//! fourth words of its first 32 entries; the 33rd entry has the region's. So the summaries of the
//! first region lie on the page of the entry that small programs use.
//!
//! Equations: a group's summary follows from its taken bits, a region's from its groups. A summary
//! stores by how many blocks each extent is shorter than the unit, so zeros mean "all free".

use super::array::OsArray;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bit {
    /// In a zone or a mapping, or excluded.
    Taken,
    Mapped,
    Excluded,
}

/// The word of an entry that may hold a summary.
const SUMMARY: usize = 3;
const WORD_BLOCKS: u32 = 64;

/// A kind of unit.
#[derive(Clone, Copy)]
struct Level {
    blocks: u32,
    /// Blocks of each part that the summary is computed from: of a word, or of a group.
    part: u32,
    /// The region's entry whose fourth word is the summary of the first of these units.
    place: u32,
}

const GROUP: Level = Level { blocks: 16 * WORD_BLOCKS, part: WORD_BLOCKS, place: 0 };
const REGION: Level = Level { blocks: 32 * GROUP.blocks, part: GROUP.blocks, place: 32 };

/// The lengths of three extents of free blocks (see above) among `blocks` neighbouring blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FreeExtents {
    blocks: u32,
    front: u32,
    back: u32,
    longest: u32,
}

impl FreeExtents {
    const NONE: Self = Self { blocks: 0, front: 0, back: 0, longest: 0 };

    /// The extents of 64 blocks; a set bit is a free block.
    fn of_word(free: u64) -> Self {
        let mut longest = 0;
        let mut rest = free;
        // Each round takes one block off every extent: the longest extent lasts `longest` rounds.
        while rest != 0 && rest != u64::MAX {
            rest &= rest << 1;
            longest += 1;
        }
        Self {
            blocks: WORD_BLOCKS,
            front: free.trailing_ones(),
            back: free.leading_ones(),
            longest: if free == u64::MAX { WORD_BLOCKS } else { longest },
        }
    }

    fn and(self, next: Self) -> Self {
        let is_whole = |extents: Self| extents.front == extents.blocks;
        Self {
            blocks: self.blocks + next.blocks,
            front: self.front + if is_whole(self) { next.front } else { 0 },
            back: next.back + if is_whole(next) { self.back } else { 0 },
            longest: self.longest.max(next.longest).max(self.back + next.front),
        }
    }

    fn packed(self) -> u64 {
        let missing = |extent: u32| u64::from(self.blocks - extent);
        missing(self.front) | missing(self.back) << 20 | missing(self.longest) << 40
    }

    fn unpacked(level: Level, packed: u64) -> Self {
        let blocks = level.blocks;
        let extent = |shift: u32| blocks - (packed >> shift & 0xf_ffff) as u32;
        Self { blocks, front: extent(0), back: extent(20), longest: extent(40) }
    }
}

/// The bits; the arena changes them under its lock.
pub(super) struct BlockBits {
    words: OsArray<[AtomicU64; 4]>,
    len: u32,
}

/// The bits for blocks `at..end` in the word that holds block `at`.
fn mask(at: u32, end: u32) -> u64 {
    let (first, count) = (at % WORD_BLOCKS, end - at);
    let from = u64::MAX << first;
    if first + count >= WORD_BLOCKS { from } else { from & !(u64::MAX << (first + count)) }
}

/// For each word that holds some of the blocks `first..end`: the first of these blocks in it.
fn words(first: u32, end: u32) -> impl Iterator<Item = u32> {
    let mut next = first;
    core::iter::from_fn(move || {
        let at = next;
        next = (at / WORD_BLOCKS + 1) * WORD_BLOCKS;
        (at < end).then_some(at)
    })
}

impl BlockBits {
    pub(super) fn new(os: &'static dyn Os, len: u32) -> OsResult<Self> {
        Ok(Self { words: OsArray::zeroed(os, len.div_ceil(WORD_BLOCKS) as usize)?, len })
    }

    fn word(&self, bit: Bit, block: u32) -> &AtomicU64 {
        &self.words.at((block / WORD_BLOCKS) as usize)[bit as usize]
    }

    fn load(&self, bit: Bit, block: u32) -> u64 {
        self.word(bit, block).load(Ordering::Relaxed)
    }

    pub(super) fn is_set(&self, bit: Bit, block: u32) -> bool {
        block < self.len && self.load(bit, block) >> (block % WORD_BLOCKS) & 1 == 1
    }

    pub(super) fn set(&self, bit: Bit, first: u32, end: u32, is_set: bool) {
        for at in words(first, end) {
            let (old, mask) = (self.load(bit, at), mask(at, end));
            let new = if is_set { old | mask } else { old & !mask };
            self.word(bit, at).store(new, Ordering::Relaxed);
        }
        if bit == Bit::Taken {
            self.summarise(first, end);
        }
    }

    /// Clears the taken bits of `first..end`, except those of excluded blocks; returns how many
    /// were set.
    pub(super) fn release(&self, first: u32, end: u32) -> u32 {
        let mut released = 0;
        for at in words(first, end) {
            let old = self.load(Bit::Taken, at);
            let mask = mask(at, end) & old & !self.load(Bit::Excluded, at);
            self.word(Bit::Taken, at).store(old & !mask, Ordering::Relaxed);
            released += mask.count_ones();
        }
        self.summarise(first, end);
        released
    }

    /// The first block from `next` on whose bit equals `is_set`, or `end`. O(blocks / 64).
    pub(super) fn next(&self, bit: Bit, is_set: bool, next: u32, end: u32) -> u32 {
        let end = end.min(self.len);
        let flip = if is_set { 0 } else { u64::MAX };
        words(next, end)
            .find_map(|at| {
                let found = (self.load(bit, at) ^ flip) & mask(at, end);
                (found != 0).then(|| at / WORD_BLOCKS * WORD_BLOCKS + found.trailing_zeros())
            })
            .unwrap_or(end)
    }

    /// The extents of blocks in `first..end` whose `bit` is `is_set`, as `(start, end)`. The
    /// iterator finds one at a time, so the caller may change bits of extents that it has got.
    pub(super) fn extents(
        &self,
        bit: Bit,
        is_set: bool,
        first: u32,
        end: u32,
    ) -> impl Iterator<Item = (u32, u32)> {
        let mut next = first;
        core::iter::from_fn(move || {
            let start = self.next(bit, is_set, next, end);
            next = self.next(bit, !is_set, start, end);
            (start < end).then_some((start, next))
        })
    }

    /// The unit's summary; `None` if the window ends within the unit.
    fn summary(&self, level: Level, block: u32) -> Option<&AtomicU64> {
        let region = block / REGION.blocks * REGION.blocks;
        let entry = region / WORD_BLOCKS + level.place + (block - region) / level.blocks;
        (block + level.blocks <= self.len).then(|| &self.words.at(entry as usize)[SUMMARY])
    }

    fn known(&self, level: Level, block: u32) -> Option<FreeExtents> {
        let packed = self.summary(level, block)?.load(Ordering::Relaxed);
        Some(FreeExtents::unpacked(level, packed))
    }

    /// The summary as it follows from the unit's words or groups.
    fn counted(&self, level: Level, block: u32) -> FreeExtents {
        let parts = (block..block + level.blocks).step_by(level.part as usize);
        parts.fold(FreeExtents::NONE, |extents, at| {
            extents.and(match level.part {
                WORD_BLOCKS => FreeExtents::of_word(!self.load(Bit::Taken, at)),
                _ => self.known(GROUP, at).unwrap_or(FreeExtents::NONE),
            })
        })
    }

    fn summarise(&self, first: u32, end: u32) {
        for level in [GROUP, REGION] {
            let blocks = level.blocks;
            for block in (first / blocks * blocks..end).step_by(blocks as usize) {
                if let Some(summary) = self.summary(level, block) {
                    summary.store(self.counted(level, block).packed(), Ordering::Relaxed);
                }
            }
        }
    }

    /// The first block from `start` on that is aligned and starts an extent of `count` free blocks;
    /// `align_up` returns the first aligned block from a given one on. O(log blocks), and as much
    /// again for each free extent that begins at an unaligned block.
    pub(super) fn find(
        &self,
        start: u32,
        count: u32,
        align_up: impl Fn(u32) -> Option<u32>,
    ) -> Option<u32> {
        // All blocks of `free..at` are free.
        let (mut free, mut at) = (start, start);
        let fits = |free: u32, end: u32| {
            let first = align_up(free)?;
            (first.checked_add(count)? <= end).then_some(first)
        };
        while at < self.len {
            if let Some(extents) = self.to_pass(at, count) {
                if let Some(first) = fits(free, at + extents.front) {
                    return Some(first);
                }
                at += extents.blocks;
                if extents.front < extents.blocks {
                    free = at - extents.back;
                }
                continue;
            }
            let end = (at / WORD_BLOCKS * WORD_BLOCKS).saturating_add(WORD_BLOCKS).min(self.len);
            let taken = self.next(Bit::Taken, true, at, end);
            if let Some(first) = fits(free, taken) {
                return Some(first);
            }
            at = end;
            if taken < end {
                at = self.next(Bit::Taken, false, taken, end);
                free = at;
            }
        }
        None
    }

    /// The largest unit that begins at `at` and that a search for `count` blocks may pass over.
    fn to_pass(&self, at: u32, count: u32) -> Option<FreeExtents> {
        let known = |level: Level| {
            let extents = at.is_multiple_of(level.blocks).then(|| self.known(level, at))??;
            // A wholly free unit is passed over: it extends `free..at`, which [`Self::find`] tests.
            let is_inside = extents.longest >= count && extents.front < extents.blocks;
            (!is_inside).then_some(extents)
        };
        known(REGION).or_else(|| known(GROUP))
    }

    pub(super) fn validate(&self) -> Result<(), Broken> {
        for level in [GROUP, REGION] {
            for block in (0..self.len).step_by(level.blocks as usize) {
                let known = self.known(level, block);
                let is_right = known.is_none_or(|known| known == self.counted(level, block));
                let bits = Check::of("bits of pageblocks").at(block);
                bits.that(is_right, "free extents known = free extents counted")?;
            }
        }
        Ok(())
    }
}
