//! Frames: their numbers, what is recorded of each, and the window that they lie in.

mod arena;
mod array;
mod bits;
mod block_bits;
mod growing;
mod memory;
mod metadata;
mod pageblock;
mod table;
#[cfg(test)]
mod tests;
mod touched;
mod window;

pub use arena::{Arena, Side, Wanted};
pub(crate) use array::fresh_zero;
pub use array::{FreshZero, OsArray};
pub(crate) use bits::masks_of;
pub use bits::{Fit, FrameBits, PAGEBLOCK_WORDS};
pub use growing::{DOWN, GrowingArray};
pub use memory::Memory;
pub use metadata::{METADATA_KINDS, Metadata, MetadataKind};
pub use pageblock::{Faults, Pageblock, PageblockTag, Pageblocks};
pub use table::{FrameState, FrameTable, Kind};
pub use touched::{KindSet, Touched};
pub use window::Window;

use core::fmt;

/// log2 of the bytes of a frame.
pub const FRAME_SHIFT: u32 = 12;
/// Bytes of a frame: 4 KiB whatever the page of the OS.
pub const FRAME_BYTES: usize = 1 << FRAME_SHIFT;
/// Largest order of the buddy allocator: 4 MiB blocks (`MAX_PAGE_ORDER`, Linux 6.8).
pub const MAX_ORDER: u8 = 10;
/// Order of a pageblock: 2 MiB, the huge page of x86-64 (`pageblock_order`, Linux 6.x).
pub const PAGEBLOCK_ORDER: u8 = 9;
/// Frames of a pageblock.
pub const PAGEBLOCK_FRAMES: u32 = 1 << PAGEBLOCK_ORDER;
/// Bytes of a pageblock.
pub const PAGEBLOCK_BYTES: usize = (PAGEBLOCK_FRAMES as usize) << FRAME_SHIFT;

/// A frame's number, counted from the start of the window's frames. A pointer becomes a frame by
/// one subtraction and one shift.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pfn(pub u32);

impl fmt::Debug for Pfn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "F{:x}", self.0)
    }
}

impl Pfn {
    /// No frame: the end of a list.
    pub const NONE: Self = Self(u32::MAX);

    /// As an index.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The frame `count` further on.
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0 + count)
    }

    /// The other half of the block of twice the size.
    #[inline(always)]
    #[must_use]
    pub const fn buddy(self, order: Order) -> Self {
        Self(self.0 ^ order.frames())
    }

    /// The first frame of the block of `order` that holds this frame.
    #[inline(always)]
    #[must_use]
    pub const fn align_down(self, order: Order) -> Self {
        Self(self.0 & !(order.frames() - 1))
    }

    /// Whether a block of `order` may start here.
    #[inline(always)]
    #[must_use]
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & (order.frames() - 1) == 0
    }

    /// The pageblock that holds this frame.
    #[inline(always)]
    #[must_use]
    pub const fn pageblock(self) -> PageblockIndex {
        PageblockIndex(self.0 >> PAGEBLOCK_ORDER)
    }
}

/// A frame or none, where zero bytes must mean none.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct MaybePfn(pub(crate) u32);

impl MaybePfn {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn new(pfn: Option<Pfn>) -> Self {
        Self(pfn.map_or(0, |pfn| pfn.0 + 1))
    }

    pub(crate) fn get(self) -> Option<Pfn> {
        self.0.checked_sub(1).map(Pfn)
    }
}

/// A pageblock's number: 2 MiB of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PageblockIndex(pub u32);

impl PageblockIndex {
    /// Its first frame.
    #[inline(always)]
    #[must_use]
    pub const fn first(self) -> Pfn {
        Pfn(self.0 << PAGEBLOCK_ORDER)
    }

    /// As an index.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The size of a block of frames, as a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Order(u8);

impl Order {
    /// One frame.
    pub const ZERO: Self = Self(0);
    /// The largest block.
    pub const MAX: Self = Self(MAX_ORDER);
    /// A pageblock.
    pub const PAGEBLOCK: Self = Self(PAGEBLOCK_ORDER);

    /// The order `value`.
    ///
    /// # Panics
    /// Above [`MAX_ORDER`].
    #[inline(always)]
    #[must_use]
    pub const fn new(value: u8) -> Self {
        assert!(value <= MAX_ORDER, "orders are 0..=10");
        Self(value)
    }

    /// The smallest order whose blocks hold `frames` frames (1..=1024).
    #[inline]
    #[must_use]
    pub const fn covering(frames: u32) -> Self {
        Self::new(frames.next_power_of_two().trailing_zeros() as u8)
    }

    /// As a number.
    #[inline(always)]
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// As an index.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Frames of a block.
    #[inline(always)]
    #[must_use]
    pub const fn frames(self) -> u32 {
        1 << self.0
    }

    /// Bytes of a block.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(self) -> usize {
        FRAME_BYTES << self.0
    }
}

/// What blocks are grouped by, so that those that live long do not pin those that do not
/// (`enum migratetype`, Linux 6.x; its names and its order).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// Slabs: one live object pins the frame.
    Unmovable = 0,
    /// Large allocations: freed whole.
    Movable = 1,
    /// Page cache: can be dropped.
    Reclaimable = 2,
    /// Reserve for high-order atomic requests.
    HighAtomic = 3,
}

/// Migratetypes that the per-CPU lists tell apart (`MIGRATE_PCPTYPES`).
pub const PCP_TYPES: usize = 3;
/// All migratetypes.
pub const MIGRATE_TYPES: usize = 4;

impl MigrateType {
    /// All, in the kernel's order.
    pub const ALL: [Self; MIGRATE_TYPES] =
        [Self::Unmovable, Self::Movable, Self::Reclaimable, Self::HighAtomic];

    /// As an index.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A NUMA node's number; one zone per node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u8);

/// Most nodes that one stack can have.
pub const MAX_NODES: usize = 8;
