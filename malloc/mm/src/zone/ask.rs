//! Requests for blocks: their size, their rights, what they get, and for which destination.

use crate::frame::{FrameState, MigrateType, Order, Pfn};

/// A request to a zone.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Size of the blocks.
    pub order: Order,
    /// The migratetype that fits their future contents.
    pub migratetype: MigrateType,
    /// Rights to go below watermarks.
    pub flags: AllocFlags,
}

/// Rights of a request to go below watermarks (`ALLOC_*`, names of Linux 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocFlags {
    /// May use part of the reserve below the min watermark (`__GFP_HIGH`).
    pub min_reserve: bool,
    /// Cannot wait for anything (atomic context).
    pub non_block: bool,
    /// May use the high-order atomic reserve.
    pub high_atomic: bool,
}

/// A block, or an exact number of frames, that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its first frame.
    pub pfn: Pfn,
    /// True if every byte is known to be zero.
    pub zeroed: bool,
}

/// The destination of a block that leaves the free lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Handed out.
    User,
    /// Put on a per-CPU list.
    Pcp,
}

impl Destination {
    #[inline]
    pub(super) fn state(self, order: Order, zeroed: bool) -> FrameState {
        match self {
            Self::User => FrameState::USED,
            Self::Pcp => FrameState::in_pcp(order, zeroed),
        }
    }
}
