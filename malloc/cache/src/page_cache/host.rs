//! The parts of the stack that the page cache uses.

use crate::lru::LruPolicy;
use quarry_mm::frame::NodeId;
use quarry_mm::slab::CacheId;
use quarry_mm::stack::StackHost;
use quarry_sys::percpu::{Object, PerCpu, WordTree};
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed};

/// A stack and the basis of its page cache.
pub trait Host {
    /// The stack.
    type Stack: StackHost;
    /// The policy of the LRU lists.
    type Lru: LruPolicy;

    /// The stack.
    fn stack(&self) -> &Self::Stack;

    /// The part of the page cache that exists before its first page.
    fn basis(&self) -> &Basis;
}

/// The part of a page cache that exists before its first page. All zero bytes at first.
pub struct Basis {
    /// The number of the slab cache of index nodes; 0 until there is one.
    nodes: AtomicU32,
}

impl Basis {
    pub(super) const fn new() -> Self {
        Self { nodes: AtomicU32::new(0) }
    }

    /// The slab cache of index nodes.
    #[must_use]
    pub fn nodes(&self) -> Option<CacheId> {
        self.nodes.load(Relaxed).try_into().ok()
    }

    pub(super) fn set_nodes(&self, nodes: CacheId) {
        self.nodes.store(nodes.into(), Relaxed);
    }
}

/// The functions of an index's nodes: allocation, release and walks.
pub trait NodeHost {
    /// Takes an index node from its slab cache: 576 bytes of any content, aligned to 64. Returns
    /// also the NUMA node of that memory.
    fn alloc_node(&self) -> Option<(Object, NodeId)>;

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

impl<H: Host> NodeHost for H {
    fn alloc_node(&self) -> Option<(Object, NodeId)> {
        // No reclaim here: the request that needs the node reclaims, depending on its effort.
        let node = self.stack().alloc_object(self.basis().nodes()?)?;
        let pages = self.stack().pages();
        let home = |pfn| pages.memory().pageblocks().of(pfn).tag().node();
        Some((node, pages.arena().pfn(node.as_ptr()).and_then(home).unwrap_or(NodeId(0))))
    }

    unsafe fn free_nodes(&self, nodes: &[Object]) {
        let Some(id) = self.basis().nodes() else { return };
        // SAFETY: the nodes came from this cache, and no task uses them (the caller's promise).
        unsafe { self.stack().free_objects(id, nodes) };
    }

    fn wait_for_walks(&self) -> bool {
        self.stack().percpu().wait_for_walks()
    }

    #[inline(always)]
    unsafe fn walk(&self, tree: &WordTree, index: u64) -> u64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.stack().percpu().walk(tree, index) }
    }
}
