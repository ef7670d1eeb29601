//! Requests to the page allocator, and the blocks that it hands out.

use crate::frame::{MigrateType, NodeId, Order, Pfn};
use crate::zone::{AllocFlags, Ask};

/// A block of frames that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its first frame.
    pub pfn: Pfn,
    /// True if every byte is known to be zero.
    pub zeroed: bool,
}

/// A request to the page allocator.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// Size of the block.
    pub order: Order,
    /// The migratetype that fits the future contents.
    pub migratetype: MigrateType,
    /// Rights to reserves, and whether the request may wait.
    pub flags: AllocFlags,
    /// The node to try first.
    pub node: NodeId,
}

impl PageRequest {
    #[inline]
    pub(super) fn ask(self) -> Ask {
        Ask { order: self.order, migratetype: self.migratetype, flags: self.flags }
    }

    /// Same as [`ask`](Self::ask), without the rights that apply only once no block was found.
    #[inline]
    pub(super) fn usual(self) -> Ask {
        Ask { flags: AllocFlags::default(), ..self.ask() }
    }
}
