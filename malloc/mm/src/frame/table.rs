//! The descriptors of frames: 7 bytes each, in three dense arrays.
//!
//! | array | bytes | written by | meaning |
//! |---|---|---|---|
//! | kind | 2 | slab, heap | who owns the frame; the one entry that `free` reads |
//! | state | 1 | zone, pcp, slab | where a block is free, its order, whether zero; a slab's shard |
//! | link | 4 | the owner | zone: list links; slab: its descriptor; heap: a block's length |
//!
//! Invariant: a frame has an owner (`kind != NONE` for the frame or for the head of its block) or
//! is free (`state`, or a bit of its pageblock, shows where), never both. Each array is accessible
//! from its start at least to the entry of the last frame ever in use. So `free` can look up every
//! address before that frame's end; the entries of unmapped and foreign frames have no owner.

use super::growing::{DOWN, GrowingArray};
use super::list::Links;
use super::order::Order;
use super::pfn::Pfn;
use core::ptr::{self, NonNull};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::prefetch::prefetch;
use quarry_sys::primitive::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The owner of a frame: a slab cache's number, or one of the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u8);

impl Kind {
    /// No allocation starts in this frame.
    pub const NONE: Self = Self(0);
    /// The table stores a kind times the bytes of an entry in the fast path's tables: `free` needs
    /// no shift to find its entry. The product takes a second byte per frame, 0.02 % of the memory.
    pub const STEP: u16 = 16;
    pub(crate) const LAST_CACHE: u8 = 239;
    /// In a slab of an own heap, or head of its block or mapping; `link` holds the number of its
    /// descriptor.
    pub const OWN: Self = Self(247);
    /// Head of a guard: frames after objects that fault; `link` tells how.
    pub const GUARD: Self = Self(248);
    /// Head of a block of pages that the program asked for as such; no check writes into it.
    pub const BARE: Self = Self(249);
    /// Head of a freed block or mapping whose pages fault; `link` holds its length in frames.
    pub const HIDDEN: Self = Self(250);
    /// Head of an object that the heap profile has sampled; `link` holds the number of its record.
    pub const SAMPLED: Self = Self(251);
    /// Head of a page of the page cache; `link` holds its number.
    pub const CACHED: Self = Self(252);
    /// Head of a block of pages; `link` holds its length in frames.
    pub const PAGES: Self = Self(253);
    /// Head of a mapping; `link` holds its length in frames.
    pub const MAPPING: Self = Self(254);

    const fn entry(self) -> u16 {
        self.0 as u16 * Self::STEP
    }

    /// The kind of an entry of the table.
    #[inline(always)]
    #[must_use]
    pub const fn of_entry(entry: u16) -> Self {
        Self((entry / Self::STEP) as u8)
    }

    /// Returns whether a slab cache owns the frame.
    #[inline]
    #[must_use]
    pub const fn is_cache(self) -> bool {
        self.0 != 0 && self.0 <= Self::LAST_CACHE
    }
}

/// A set of kinds of frames. One such set holds the kinds whose objects a program touches whole.
///
/// Many programs touch only a small part of a large object. If Quarry brought in whole objects,
/// such programs would take many times their memory. `mincore` would tell which pages are in
/// memory, but other allocators do not call it, so a filter of system calls may kill a process that
/// does. So the slab layer estimates for each kind of frame. A program that writes into each object
/// of a page or less touches the whole slab. For larger objects, the layer checks whether anything
/// was written after their first page.
#[derive(Default)]
pub struct KindSet([AtomicU64; 4]);

impl KindSet {
    /// Puts a kind into the set, or takes it out.
    pub fn set(&self, kind: Kind, is_in: bool) {
        let (word, bit) = self.place(kind);
        if is_in {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Returns whether a kind is in the set.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        let (word, bit) = self.place(kind);
        word.load(Ordering::Relaxed) & bit != 0
    }

    fn place(&self, kind: Kind) -> (&AtomicU64, u64) {
        (&self.0[usize::from(kind.0 / 64)], 1 << (kind.0 % 64))
    }
}

/// The state byte of a frame.
///
/// `{in_zone : 1 | in_pcp : 1 | reserved : 1 | zeroed : 1 | order : 4}`, all 0 = in use, in an
/// extent, or never taken. In a free block, only the head has bits set. The second frame of a slab
/// has the number of a shard, below 64, in the lower bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameState(pub u8);

impl FrameState {
    /// In use, free in an extent, or never taken from the arena.
    pub const USED: Self = Self(0);
    const IN_ZONE: u8 = 1 << 7;
    const IN_PCP: u8 = 1 << 6;
    const ZEROED: u8 = 1 << 4;

    #[must_use]
    pub(crate) const fn in_zone(order: Order, zeroed: bool) -> Self {
        Self(Self::IN_ZONE | if zeroed { Self::ZEROED } else { 0 } | order.get())
    }

    /// Head of a free block of `order` on a per-CPU list.
    #[must_use]
    pub const fn in_pcp(order: Order, zeroed: bool) -> Self {
        Self(Self::IN_PCP | if zeroed { Self::ZEROED } else { 0 } | order.get())
    }

    #[must_use]
    pub(crate) const fn is_buddy(self, order: Order) -> bool {
        self.0 & !Self::ZEROED == Self::IN_ZONE | order.get()
    }

    /// Returns whether this heads a free block of exactly `order` on a per-CPU list.
    #[must_use]
    pub const fn is_listed(self, order: Order) -> bool {
        self.0 & !Self::ZEROED == Self::IN_PCP | order.get()
    }

    #[must_use]
    pub(crate) const fn is_in_zone(self) -> bool {
        self.0 & Self::IN_ZONE != 0
    }

    /// Returns whether this heads a free block on a per-CPU list.
    #[must_use]
    pub const fn is_in_pcp(self) -> bool {
        self.0 & Self::IN_PCP != 0
    }

    /// Returns whether this heads a free block anywhere.
    #[must_use]
    pub const fn is_free(self) -> bool {
        self.0 & (Self::IN_ZONE | Self::IN_PCP) != 0
    }

    /// Returns whether every byte of the block is known to be zero.
    #[must_use]
    pub const fn is_zeroed(self) -> bool {
        self.0 & Self::ZEROED != 0
    }

    /// The order of the block.
    #[must_use]
    pub const fn order(self) -> Order {
        Order::new(self.0 & 0xf)
    }
}

/// The three arrays. All accesses are relaxed: each entry is guarded by a lock of the layer that
/// owns the frame, and the kind of an allocation does not change while it lives.
pub struct FrameTable {
    kind: GrowingArray<AtomicU16>,
    state: GrowingArray<AtomicU8, DOWN>,
    link: GrowingArray<AtomicU32, DOWN>,
}

impl FrameTable {
    /// Bytes of metadata per frame.
    pub const BYTES_PER_FRAME: usize = 7;

    /// Bytes of a window that each array takes: the links before the first address of
    /// [`new`](Self::new), the kinds after it, the states before the second address.
    pub(super) fn spans(os: &dyn Os, frames: u32) -> [usize; 3] {
        let frames = frames as usize;
        [
            GrowingArray::<AtomicU32, DOWN>::span(os, frames),
            GrowingArray::<AtomicU16>::span(os, frames),
            GrowingArray::<AtomicU8, DOWN>::span(os, frames),
        ]
    }

    /// Empty arrays around two addresses of a window: see [`spans`](Self::spans).
    pub(super) fn new(
        os: &'static dyn Os,
        links_and_kinds: NonNull<u8>,
        states: NonNull<u8>,
        frames: u32,
    ) -> Self {
        let frames = frames as usize;
        let table = Self {
            kind: GrowingArray::new(os, links_and_kinds, frames),
            state: GrowingArray::new(os, states, frames),
            link: GrowingArray::new(os, links_and_kinds, frames),
        };
        table.kind.announce_as_of_frames();
        table.state.announce_as_of_frames();
        table.link.announce_as_of_frames();
        table
    }

    /// Makes the entries of frames `0..frames` accessible, under the lock of the arena.
    pub(super) fn grow(&self, frames: u32) -> OsResult<()> {
        let frames = frames as usize;
        self.kind.grow(frames)?;
        self.state.grow(frames)?;
        self.link.grow(frames)
    }

    /// The owner of the allocation that starts in this frame, or of the slab that the frame is in.
    #[inline(always)]
    #[must_use]
    pub fn kind(&self, pfn: Pfn) -> Kind {
        Kind::of_entry(self.kind.at(pfn.index()).load(Ordering::Relaxed))
    }

    /// Prefetches the kind and the link of a frame.
    #[inline]
    pub fn prefetch(&self, pfn: Pfn) {
        prefetch(ptr::from_ref(self.kind.at(pfn.index())).cast());
        prefetch(ptr::from_ref(self.link.at(pfn.index())).cast());
    }

    /// Sets the owner of `count` frames.
    pub fn set_kind(&self, first: Pfn, count: u32, kind: Kind) {
        for offset in 0..count {
            self.kind.at(first.plus(offset).index()).store(kind.entry(), Ordering::Relaxed);
        }
    }

    /// The array of kinds, for the fast path: one entry per frame, see [`Kind::of_entry`].
    #[must_use]
    pub fn kinds(&self) -> NonNull<AtomicU16> {
        self.kind.start()
    }

    /// The state byte.
    #[inline]
    #[must_use]
    pub fn state(&self, pfn: Pfn) -> FrameState {
        FrameState(self.state.at(pfn.index()).load(Ordering::Relaxed))
    }

    /// Sets the state byte. The frame has metadata.
    #[inline]
    pub fn set_state(&self, pfn: Pfn, state: FrameState) {
        self.state.at(pfn.index()).store(state.0, Ordering::Relaxed);
    }

    /// The link word.
    #[inline]
    #[must_use]
    pub fn link(&self, pfn: Pfn) -> u32 {
        self.link.at(pfn.index()).load(Ordering::Relaxed)
    }

    /// Sets the link word. The frame has metadata.
    #[inline]
    pub fn set_link(&self, pfn: Pfn, value: u32) {
        self.link.at(pfn.index()).store(value, Ordering::Relaxed);
    }

    /// The link words of two neighbouring frames as one word; panics if `even` is odd.
    #[inline]
    #[must_use]
    pub(crate) fn link_pair(&self, even: Pfn) -> &AtomicU64 {
        assert!(even.0.is_multiple_of(2), "link pairs start at even frames");
        let lower = self.link.at(even.plus(1).index());
        // SAFETY: `lower` and the entry of `even`, which follows it in memory, are eight bytes. The
        // array grows down from a page, so they start at a multiple of 8. The owner of the frames
        // uses the two entries either as a pair or as two words.
        unsafe { NonNull::from(lower).cast::<AtomicU64>().as_ref() }
    }
}

/// The links of blocks of at least two frames: the first frame's word names the next block, the
/// second frame's the previous one.
impl Links for FrameTable {
    type Member = Pfn;

    #[inline]
    fn next_word(&self, member: Pfn) -> &AtomicU32 {
        self.link.at(member.index())
    }

    #[inline]
    fn previous_word(&self, member: Pfn) -> &AtomicU32 {
        self.link.at(member.plus(1).index())
    }
}
