//! What the page cache asks of the stack that it is part of.

use quarry_mm::frame::{Metadata, NodeId};
use quarry_mm::pcp::{PageAllocator, PagePolicy};
use quarry_mm::slab::CacheId;
use quarry_mm::zone::Groups;
use quarry_sys::percpu::{Object, SlotIndex, WordTree};

/// The layers below the page cache, with the slab policy and the slots behind them.
pub trait Host: NodeHost {
    /// The policy of the lists in front of the zones.
    type Pages: PagePolicy;

    /// Where pages come from.
    fn pages(&self) -> &PageAllocator<Self::Pages>;

    /// The slot of the running CPU: a hint.
    fn slot(&self) -> SlotIndex;

    /// Memory for descriptors, and their account.
    fn metadata(&self) -> &Metadata;

    /// Number of slots.
    fn slots(&self) -> u32;

    /// The groups that pages are charged to.
    fn groups(&self) -> &Groups;

    /// Gives back the objects that went with pages: those in their private words.
    ///
    /// # Safety
    /// All were allocated from this cache, differ, and nobody uses them any more.
    unsafe fn free_private(&self, cache: CacheId, objects: &[Object]);

    /// Makes room for `frames` frames, or for an index node where they are 0, because a request
    /// found none, and attempts it again while what was freed is its own. Returns whether it was
    /// served. No lock of the page cache is held.
    fn make_room(&self, frames: u32, attempt: &mut dyn FnMut() -> bool) -> bool;
}

/// Where the nodes of indexes come from, and who walks them.
pub trait NodeHost {
    /// Takes an index node from its slab cache: 576 bytes aligned to 64, whatever they hold.
    fn alloc_node(&self) -> Option<Object>;

    /// The node of the memory that an index node lies in.
    fn node_of(&self, _node: Object) -> NodeId {
        NodeId(0)
    }

    /// Gives index nodes back.
    ///
    /// # Safety
    /// They came from [`alloc_node`](Self::alloc_node), and no reader can reach them any more.
    unsafe fn free_nodes(&self, nodes: &[Object]);

    /// Restarts every sequence that runs at the moment, so that no walk of an index that began
    /// before is still under way. Returns false where the calling thread may not, or the system
    /// cannot.
    fn wait_for_walks(&self) -> bool;

    /// The leaf at `index` of a tree of words, by one sequence of loads: see
    /// [`PerCpu::walk`](quarry_sys::percpu::PerCpu::walk). Returns 0 where there is none, and where
    /// the thread has no sequences.
    ///
    /// # Safety
    /// As there, with [`wait_for_walks`](Self::wait_for_walks).
    unsafe fn walk(&self, _tree: &WordTree, _index: u64) -> u64 {
        0
    }
}
