//! What is asked of the page allocator, and what it hands out.

use crate::frame::{MigrateType, NodeId, Order, Pfn};
use crate::zone::{AllocFlags, Ask};

/// A block of frames that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its first frame.
    pub pfn: Pfn,
    /// Whether every byte is known to be zero.
    pub zeroed: bool,
}

/// What is asked of the page allocator.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// Size of the block.
    pub order: Order,
    /// What it will hold.
    pub migratetype: MigrateType,
    /// Rights beyond the usual.
    pub flags: AllocFlags,
    /// The node to try first.
    pub node: NodeId,
}

impl PageRequest {
    /// The part of the request that zones see.
    #[inline]
    pub(super) fn ask(self) -> Ask {
        Ask { order: self.order, migratetype: self.migratetype, flags: self.flags }
    }
}
