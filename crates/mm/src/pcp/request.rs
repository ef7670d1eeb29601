//! Requests to the page allocator.

use crate::frame::{MigrateType, NodeId, Order};
use crate::zone::{AllocFlags, Ask};

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
