//! Numbers of frames and of pageblocks.

use super::order::{Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};
use core::fmt;

/// A frame's number, counted from the first frame of the window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pfn(pub u32);

impl fmt::Debug for Pfn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "F{:x}", self.0)
    }
}

impl Pfn {
    /// No frame.
    pub const NONE: Self = Self(u32::MAX);

    /// The number as an index.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The frame `count` frames after this one.
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0 + count)
    }

    /// The buddy of the block of `order` here: the other half of the block of twice the size.
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

    /// Returns whether a block of `order` may start here.
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

/// A pageblock's number, counted in steps of 2 MiB from the start of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PageblockIndex(pub u32);

impl PageblockIndex {
    /// Its first frame.
    #[inline(always)]
    #[must_use]
    pub const fn first(self) -> Pfn {
        Pfn(self.0 << PAGEBLOCK_ORDER)
    }

    /// All its frames.
    pub fn frames(self) -> impl Iterator<Item = Pfn> {
        (0..PAGEBLOCK_FRAMES).map(move |at| self.first().plus(at))
    }

    /// The number as an index.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
