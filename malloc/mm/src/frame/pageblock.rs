//! The descriptor of a pageblock: 320 bytes, 0.625 per frame.
//!
//! A doubly linked list needs two link words per member, and the frame table has one per frame. So
//! free blocks of order 0 are a bitmap here, and a list links the pageblocks that have some. The
//! zone's lock guards all fields except `faults`; any task may read `tag` and `shelf` without it.
//! The lock of a shelf guards the extents of a pageblock on it.
//!
//! Invariants, with `singles(b)` the free blocks of order 0 in pageblock `b`:
//! * bit `i` of `single` is set iff frame `i` is in `singles(b)`; `nr_singles = |singles(b)|`
//! * bit `w` of `words` is set iff word `w` of `single` is not 0
//! * `free` = frames of free blocks whose first frame lies here (1,024 for a block of order 10)
//! * `dirty` = the part of `free` that is not known to be zero; `dirty <= free`
//! * bit `i` of `movable` is set iff frame `i` left the buddy allocator for a movable request
//! * bit `i` of `extents` is set iff frame `i` is free and kept for requests of an exact number of
//!   frames; then it is in no free block, its state is `USED`, and bit `i` of `movable` is set
//! * `dirty_extents` = the part of `extents` that is not known to be zero
//! * `longest_extent` = frames of the longest extent of set bits in `extents`

use super::array::fresh_zero;
use super::bits::{FrameBits, PAGEBLOCK_WORDS as WORDS, masks_of};
use super::growing::GrowingArray;
use super::list::{Link, Links};
use super::migratetype::{MigrateType, NodeId};
use super::order::Order;
use super::pfn::{PageblockIndex, Pfn};
use core::ptr::NonNull;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

const _: () = assert!(WORDS == 8, "`words` has one bit for each word of the bitmap");

/// The zone and the migratetype of a pageblock in one byte: `{node + 1 : 4 | migratetype : 2}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageblockTag(u8);

impl PageblockTag {
    /// In no zone.
    pub const NONE: Self = Self(0);

    /// In the zone of `node`, for blocks of `migratetype`.
    #[must_use]
    pub const fn new(node: NodeId, migratetype: MigrateType) -> Self {
        Self((node.0 + 1) << 2 | migratetype as u8)
    }

    /// The node of the zone, or `None` for a pageblock in no zone.
    #[inline]
    #[must_use]
    pub const fn node(self) -> Option<NodeId> {
        match self.0 >> 2 {
            0 => None,
            node => Some(NodeId(node - 1)),
        }
    }

    /// The migratetype of its blocks.
    #[inline]
    #[must_use]
    pub const fn migratetype(self) -> MigrateType {
        MigrateType::ALL[(self.0 & 3) as usize]
    }
}

fresh_zero! {
    struct LinkWords {
        next: AtomicU32,
        previous: AtomicU32,
    }

    /// The descriptor of one pageblock.
    #[repr(C, align(64))]
    pub struct Pageblock {
        single: [AtomicU64; WORDS],
        movable: [AtomicU64; WORDS],
        extents: [AtomicU64; WORDS],
        dirty_extents: [AtomicU64; WORDS],
        /// Indexed by `OF_SINGLES` and `OF_EXTENTS`.
        links: [LinkWords; 2],
        /// `{dirty : 16 | free : 16}`.
        counts: AtomicU32,
        nr_singles: AtomicU16,
        longest_extent: AtomicU16,
        words: AtomicU8,
        tag: AtomicU8,
        faults: AtomicU8,
        /// One more than the shelf that has the pageblock; 0 = none.
        shelf: AtomicU8,
    }
}

/// The way in which the kernel brings in fresh memory of a pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Faults {
    /// In small pages.
    Plain = 0,
    /// As a huge page, at the first touch.
    Huge = 1,
    /// In small pages only: the pageblock is one of a zone's first, or a part of it went back to
    /// the OS and khugepaged must not fill that part again.
    Small = 2,
    /// A huge page has brought in all of it.
    Whole = 3,
}

impl Faults {
    #[must_use]
    pub(crate) fn is_huge(self) -> bool {
        matches!(self, Self::Huge | Self::Whole)
    }
}

/// Calls `act` with each word that has bits of `offset..offset + 2^order`, and a mask of them.
#[inline]
fn for_words(words: &[AtomicU64; WORDS], offset: u32, order: Order, act: impl Fn(&AtomicU64, u64)) {
    let word = offset as usize / 64;
    if order.get() < 6 {
        act(&words[word], ((1u64 << order.frames()) - 1) << (offset % 64));
    } else {
        words[word..]
            .iter()
            .take(order.frames() as usize / 64)
            .for_each(|word| act(word, u64::MAX));
    }
}

#[inline]
fn add_bits(word: &AtomicU64, mask: u64) {
    word.store(word.load(Relaxed) | mask, Relaxed);
}

#[inline]
fn loaded(words: &[AtomicU64; WORDS]) -> FrameBits {
    FrameBits(core::array::from_fn(|word| words[word].load(Relaxed)))
}

#[inline]
fn store(words: &[AtomicU64; WORDS], bits: FrameBits) {
    words.iter().zip(bits.0).for_each(|(word, bits)| word.store(bits, Relaxed));
}

/// The value to add to `counts` for free frames, `dirty` of which are not known to be zero.
#[inline(always)]
fn counts_of(frames: u32, dirty: u32) -> u32 {
    dirty << 16 | frames
}

impl Pageblock {
    /// Zone and migratetype.
    #[inline(always)]
    #[must_use]
    pub fn tag(&self) -> PageblockTag {
        PageblockTag(self.tag.load(Relaxed))
    }

    /// Puts the pageblock into a zone, or changes its migratetype.
    pub fn set_tag(&self, tag: PageblockTag) {
        self.tag.store(tag.0, Relaxed);
    }

    /// The shelf that the zone has lent the pageblock to.
    #[inline]
    #[must_use]
    pub(crate) fn shelf(&self) -> Option<u32> {
        u32::from(self.shelf.load(Relaxed)).checked_sub(1)
    }

    pub(crate) fn set_shelf(&self, shelf: Option<u32>) {
        self.shelf.store(shelf.map_or(0, |shelf| shelf as u8 + 1), Relaxed);
    }

    /// The migratetype of its blocks.
    #[inline]
    #[must_use]
    pub fn migratetype(&self) -> MigrateType {
        self.tag().migratetype()
    }

    /// The way in which its fresh memory comes in.
    #[inline]
    #[must_use]
    pub fn faults(&self) -> Faults {
        match self.faults.load(Relaxed) {
            0 => Faults::Plain,
            1 => Faults::Huge,
            2 => Faults::Small,
            _ => Faults::Whole,
        }
    }

    /// Writes without reading first: reading a fresh descriptor would cost one page fault more.
    pub(crate) fn set_faults(&self, faults: Faults) {
        self.faults.store(faults as u8, Relaxed);
    }

    /// If the pageblock is `Huge`, records that a huge page has brought it in.
    pub(crate) fn came_in_whole(&self) {
        let (huge, whole) = (Faults::Huge as u8, Faults::Whole as u8);
        // Fails if it is `Whole` already, or if another thread gave back a part of it (`Small`).
        let _ = self.faults.compare_exchange(huge, whole, Relaxed, Relaxed);
    }

    /// Records that all memory of the pageblock went back to the OS: `Whole` becomes `Huge` again.
    pub(super) fn went_whole(&self) {
        let (huge, whole) = (Faults::Huge as u8, Faults::Whole as u8);
        if self.faults() == Faults::Whole {
            let _ = self.faults.compare_exchange(whole, huge, Relaxed, Relaxed);
        }
    }

    #[inline]
    #[must_use]
    pub(crate) fn nr_singles(&self) -> u32 {
        u32::from(self.nr_singles.load(Relaxed))
    }

    /// Returns whether frame `offset` is a free block of order 0.
    #[must_use]
    pub fn is_single(&self, offset: u32) -> bool {
        self.single[offset as usize / 64].load(Relaxed) >> (offset % 64) & 1 == 1
    }

    #[inline]
    #[must_use]
    pub(crate) fn lowest_single(&self) -> Option<u32> {
        let word = self.words.load(Relaxed).trailing_zeros();
        let bits = self.single.get(word as usize)?.load(Relaxed);
        Some(word * 64 + bits.trailing_zeros())
    }

    /// Records that frame `offset` became a free block of order 0; returns how many there are now.
    #[inline]
    pub(crate) fn add_single(&self, offset: u32) -> u32 {
        let (index, bit) = (offset as usize / 64, 1u64 << (offset % 64));
        let word = self.single[index].load(Relaxed);
        debug_assert!(word & bit == 0, "frame is a free single already");
        self.single[index].store(word | bit, Relaxed);
        self.words.store(self.words.load(Relaxed) | 1 << index, Relaxed);
        let count = self.nr_singles.load(Relaxed) + 1;
        self.nr_singles.store(count, Relaxed);
        u32::from(count)
    }

    /// Records that frame `offset` is no longer a free block of order 0; returns how many are left.
    #[inline]
    pub(crate) fn remove_single(&self, offset: u32) -> u32 {
        let (index, bit) = (offset as usize / 64, 1u64 << (offset % 64));
        let word = self.single[index].load(Relaxed);
        debug_assert!(word & bit != 0, "frame is not a free single");
        self.single[index].store(word & !bit, Relaxed);
        if word == bit {
            self.words.store(self.words.load(Relaxed) & !(1 << index), Relaxed);
        }
        let count = self.nr_singles.load(Relaxed) - 1;
        self.nr_singles.store(count, Relaxed);
        u32::from(count)
    }

    /// Takes up to `most` free blocks of order 0, lowest first; returns how many. O(words +
    /// blocks).
    #[inline]
    pub(crate) fn take_singles(&self, most: u32, mut take: impl FnMut(u32)) -> u32 {
        let (mut words, mut left) = (self.words.load(Relaxed), most);
        while left > 0 && words != 0 {
            let index = words.trailing_zeros();
            let word = &self.single[index as usize % WORDS];
            let mut bits = word.load(Relaxed);
            while left > 0 && bits != 0 {
                take(index * 64 + bits.trailing_zeros());
                bits &= bits - 1;
                left -= 1;
            }
            word.store(bits, Relaxed);
            if bits == 0 {
                words &= words - 1;
            }
        }
        self.words.store(words, Relaxed);
        let taken = most - left;
        self.nr_singles.store(self.nr_singles.load(Relaxed) - taken as u16, Relaxed);
        taken
    }

    /// Frames of the free blocks that start here.
    #[inline]
    #[must_use]
    pub fn free(&self) -> u32 {
        self.counts.load(Relaxed) & 0xffff
    }

    /// Frames of the free blocks that start here and are not known to be zero.
    #[inline]
    #[must_use]
    pub fn dirty(&self) -> u32 {
        self.counts.load(Relaxed) >> 16
    }

    /// Counts frames of blocks that became free, `dirty` of which are not known to be zero.
    #[inline]
    pub fn count_freed(&self, frames: u32, dirty: u32) {
        self.counts.store(self.counts.load(Relaxed) + counts_of(frames, dirty), Relaxed);
    }

    /// Subtracts frames of free blocks that were taken, `dirty` of which are not known to be zero.
    #[inline]
    pub fn count_taken(&self, frames: u32, dirty: u32) {
        self.counts.store(self.counts.load(Relaxed) - counts_of(frames, dirty), Relaxed);
    }

    #[inline]
    pub(crate) fn mark_movable(&self, offset: u32, order: Order) {
        for_words(&self.movable, offset, order, add_bits);
    }

    #[inline]
    pub(crate) fn clear_movable(&self, offset: u32, order: Order) {
        for_words(&self.movable, offset, order, |word, mask| {
            let marks = word.load(Relaxed);
            if marks & mask != 0 {
                word.store(marks & !mask, Relaxed);
            }
        });
    }

    #[must_use]
    pub(crate) fn is_movable(&self, offset: u32) -> bool {
        self.movable[offset as usize / 64].load(Relaxed) >> (offset % 64) & 1 == 1
    }

    #[must_use]
    pub(crate) fn nr_movable(&self) -> u32 {
        self.movable.iter().map(|word| word.load(Relaxed).count_ones()).sum()
    }

    /// Free frames kept for requests of an exact number of frames.
    #[inline]
    #[must_use]
    pub fn extents(&self) -> FrameBits {
        loaded(&self.extents)
    }

    #[inline]
    #[must_use]
    pub(crate) fn dirty_extents(&self) -> FrameBits {
        loaded(&self.dirty_extents)
    }

    #[inline]
    #[must_use]
    pub(crate) fn extents_in(&self, offset: u32, count: u32) -> u32 {
        masks_of(offset, count)
            .map(|(word, mask)| (self.extents[word].load(Relaxed) & mask).count_ones())
            .sum()
    }

    /// Returns whether any of the `count` frames from `offset` on is kept and not known to be zero.
    #[inline]
    #[must_use]
    pub(crate) fn has_dirty_in(&self, offset: u32, count: u32) -> bool {
        masks_of(offset, count)
            .any(|(word, mask)| self.dirty_extents[word].load(Relaxed) & mask != 0)
    }

    /// Keeps free frames as (part of) an extent.
    #[inline]
    pub(crate) fn add_extent(&self, offset: u32, count: u32, zeroed: bool) {
        for (word, mask) in masks_of(offset, count) {
            add_bits(&self.extents[word], mask);
            add_bits(&self.movable[word], mask);
            if !zeroed {
                add_bits(&self.dirty_extents[word], mask);
            }
        }
    }

    /// Gives up kept frames; returns how many of them are not known to be zero.
    #[inline]
    pub(crate) fn remove_extent(&self, offset: u32, count: u32) -> u32 {
        let mut were_dirty = 0;
        for (word, mask) in masks_of(offset, count) {
            let (extents, dirty) = (&self.extents[word], &self.dirty_extents[word]);
            debug_assert_eq!(extents.load(Relaxed) & mask, mask, "frames that are not kept");
            extents.store(extents.load(Relaxed) & !mask, Relaxed);
            let bits = dirty.load(Relaxed);
            were_dirty += (bits & mask).count_ones();
            dirty.store(bits & !mask, Relaxed);
        }
        were_dirty
    }

    /// Keeps the frames `clean`, which are known to be zero, and no others.
    #[inline]
    pub(crate) fn keep_only(&self, clean: FrameBits) {
        store(&self.extents, clean);
        store(&self.dirty_extents, FrameBits::NONE);
    }

    #[inline]
    #[must_use]
    pub(crate) fn longest_extent(&self) -> u32 {
        u32::from(self.longest_extent.load(Relaxed))
    }

    #[inline]
    #[must_use]
    pub(crate) fn next_extent(&self) -> Link<PageblockIndex> {
        Link::from_word(self.links[OF_EXTENTS].next.load(Relaxed))
    }

    #[inline]
    pub(crate) fn set_longest_extent(&self, frames: u32) {
        self.longest_extent.store(frames as u16, Relaxed);
    }
}

/// The descriptors of a window's pageblocks, up to the last one that was ever in use.
pub struct Pageblocks {
    array: GrowingArray<Pageblock>,
}

impl Pageblocks {
    pub(super) const BYTES_EACH: usize = size_of::<Pageblock>();

    pub(super) fn span(os: &dyn Os, count: u32) -> usize {
        GrowingArray::<Pageblock>::span(os, count as usize)
    }

    /// An empty array for `count` descriptors in the [`span`](Self::span) bytes from `start` on.
    pub(super) fn new(os: &'static dyn Os, start: NonNull<u8>, count: u32) -> Self {
        Self { array: GrowingArray::new(os, start, count as usize) }
    }

    /// Makes the descriptors of pageblocks `0..count` accessible, under the lock of the arena.
    pub(super) fn grow(&self, count: u32) -> OsResult<()> {
        self.array.grow(count as usize)
    }

    /// The descriptor of a pageblock.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, index: PageblockIndex) -> &Pageblock {
        self.array.at(index.index())
    }

    /// The descriptor of the pageblock that holds a frame.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, pfn: Pfn) -> &Pageblock {
        self.at(pfn.pageblock())
    }

    /// Number of pageblocks that are described.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.array.len() as u32
    }
}

/// The lists of pageblocks that have free blocks of order 0: see `zone/free_area.rs`.
const OF_SINGLES: usize = 0;
/// The lists that sort pageblocks by their longest extents: see `zone/extents.rs`.
const OF_EXTENTS: usize = 1;

/// The links of one of the two kinds of lists of pageblocks.
pub struct PageblockLinks<'a, const KIND: usize>(&'a Pageblocks);

impl Pageblocks {
    #[inline]
    #[must_use]
    pub(crate) fn single_links(&self) -> PageblockLinks<'_, OF_SINGLES> {
        PageblockLinks(self)
    }

    #[inline]
    #[must_use]
    pub(crate) fn extent_links(&self) -> PageblockLinks<'_, OF_EXTENTS> {
        PageblockLinks(self)
    }
}

impl<const KIND: usize> Links for PageblockLinks<'_, KIND> {
    type Member = PageblockIndex;

    #[inline]
    fn next_word(&self, member: PageblockIndex) -> &AtomicU32 {
        self.words(member).0
    }

    #[inline]
    fn previous_word(&self, member: PageblockIndex) -> &AtomicU32 {
        self.words(member).1
    }

    #[inline]
    fn words(&self, member: PageblockIndex) -> (&AtomicU32, &AtomicU32) {
        let LinkWords { next, previous } = &self.0.at(member).links[KIND];
        (next, previous)
    }
}
