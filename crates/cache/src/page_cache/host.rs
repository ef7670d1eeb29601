//! The parts of the stack that the page cache uses.

use crate::lru::LruPolicy;
use quarry_mm::frame::{Metadata, NodeId};
use quarry_mm::pcp::{PageAllocator, PagePolicy};
use quarry_mm::slab::CacheId;
use quarry_mm::zone::Groups;
use quarry_sys::percpu::{Object, SlotIndex, WordTree};

/// The layers below the page cache, with the slab policy and its slots.
pub trait Host: NodeHost {
    /// The policy of the pcp lists.
    type Pages: PagePolicy;

    /// The policy of the LRU lists.
    type Lru: LruPolicy;

    /// The page allocator that pages come from.
    fn pages(&self) -> &PageAllocator<Self::Pages>;

    /// The slot of the running CPU: a hint.
    fn slot(&self) -> SlotIndex;

    /// The memory of Quarry's own descriptors, and its counts.
    fn metadata(&self) -> &Metadata;

    /// Number of slots.
    fn slots(&self) -> u32;

    /// The groups that pages are charged to.
    fn groups(&self) -> &Groups;

    /// Frees the objects in the private words of pages that were freed.
    ///
    /// # Safety
    /// All objects were allocated from this cache, are distinct, and are not used any more.
    unsafe fn free_private(&self, cache: CacheId, objects: &[Object]);

    /// Reclaims `frames` frames, or an index node if `frames` is 0, for a request that found none.
    /// Then calls `attempt`, which repeats the request, while no other task can take the freed
    /// memory. Returns whether `attempt` succeeded. The caller holds no lock of the page cache.
    fn make_room(&self, frames: u32, attempt: &mut dyn FnMut() -> bool) -> bool;
}

/// The functions of an index's nodes: allocation, release and walks.
pub trait NodeHost {
    /// Takes an index node from its slab cache: 576 bytes of any content, aligned to 64.
    fn alloc_node(&self) -> Option<Object>;

    /// The NUMA node of an index node's memory.
    fn node_of(&self, _node: Object) -> NodeId {
        NodeId(0)
    }

    /// Gives index nodes back.
    ///
    /// # Safety
    /// The nodes came from [`alloc_node`](Self::alloc_node), and no reader can reach them any more.
    unsafe fn free_nodes(&self, nodes: &[Object]);

    /// Restarts every running sequence, so that every walk of an index that began before has ended.
    /// Returns false if the calling thread may not do this, or the system cannot.
    fn wait_for_walks(&self) -> bool;

    /// Returns the leaf at `index` of a tree of words, by one sequence of loads: see
    /// [`PerCpu::walk`](quarry_sys::percpu::PerCpu::walk). Returns 0 if there is no leaf, or if the
    /// thread has no sequences.
    ///
    /// # Safety
    /// As for `PerCpu::walk`, with this trait's [`wait_for_walks`](Self::wait_for_walks).
    unsafe fn walk(&self, _tree: &WordTree, _index: u64) -> u64 {
        0
    }
}
