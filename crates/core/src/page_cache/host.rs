//! What the page cache asks of the stack that it is part of.

use crate::pcp::PageAllocator;
use quarry_sys::percpu::{Object, SlotIndex};

/// The layers below the page cache, with the slab policy and the slots behind them.
pub trait Host {
    /// Where pages come from.
    fn pages(&self) -> &PageAllocator;

    /// The slot of the running CPU: a hint.
    fn slot(&self) -> SlotIndex;

    /// Takes an index node from its slab cache: 576 bytes, whatever they hold.
    fn alloc_node(&self) -> Option<Object>;

    /// Gives index nodes back.
    ///
    /// # Safety
    /// They came from [`alloc_node`](Self::alloc_node), and no reader can reach them any more.
    unsafe fn free_nodes(&self, nodes: &[Object]);

    /// Restarts every sequence that runs at the moment, so that no walk of an index that began
    /// before is still under way. Returns false where the calling thread may not, or the system
    /// cannot.
    fn wait_for_walks(&self) -> bool;
}
