//! The page cache of a stack: what it stands on.

use super::direct_reclaim::Claimant;
use super::instance::{Stack, StackConfig};
use crate::frame::{Metadata, NodeId};
use crate::page_cache::index::{NODE_ALIGN, NODE_BYTES};
use crate::page_cache::{Host, NodeHost, PageCacheRef};
use crate::pcp::PageAllocator;
use crate::slab::{CacheId, CacheParams};
use crate::zone::Groups;
use quarry_sys::os::OsResult;
use quarry_sys::own_stack;
use quarry_sys::percpu::{Object, PerCpu, SlotIndex, WordTree};

impl<C: StackConfig> Stack<C> {
    /// The page cache, whose tables are made at the first call. O(1) after that.
    ///
    /// # Errors
    /// Where the system refuses memory for them, or a stack has as many slab caches as it can.
    ///
    /// # Panics
    /// Where the stack is not initialised.
    pub fn page_cache(&self) -> OsResult<PageCacheRef<'_, Self>> {
        match self.used_page_cache() {
            Some(cache) => Ok(cache),
            None => own_stack::run(|| self.build_page_cache()),
        }
    }

    #[inline(never)]
    fn build_page_cache(&self) -> OsResult<PageCacheRef<'_, Self>> {
        let (options, lru) = (self.inner().page_cache, self.inner().lru);
        self.page_cache.open(self, &options, lru, || {
            self.pages().zones().budget().keep_reserve();
            let params = CacheParams { size: NODE_BYTES, align: NODE_ALIGN };
            self.create_cache("radix_tree_node", &params)
        })
    }

    /// The page cache, if it has been used. O(1).
    #[inline]
    pub fn used_page_cache(&self) -> Option<PageCacheRef<'_, Self>> {
        self.page_cache.opened(self)
    }
}

impl<C: StackConfig> NodeHost for Stack<C> {
    fn alloc_node(&self) -> Option<Object> {
        // Whoever wants the node reclaims, if anyone: a request with little effort does not.
        let cache = self.cache(self.page_cache.nodes()?);
        cache.alloc_fast().or_else(|| cache.alloc_without_reclaim())
    }

    unsafe fn free_nodes(&self, nodes: &[Object]) {
        let Some(id) = self.page_cache.nodes() else { return };
        // SAFETY: they came from this cache, and nobody uses them (the caller's promise).
        unsafe { self.cache(id).free_bulk(nodes) };
    }

    fn wait_for_walks(&self) -> bool {
        self.fast.percpu.wait_for_walks()
    }

    fn node_of(&self, node: Object) -> NodeId {
        let home = |pfn| self.pages().memory().pageblocks().of(pfn).tag().node();
        self.arena().pfn(node.as_ptr()).and_then(home).unwrap_or(NodeId(0))
    }

    #[inline(always)]
    unsafe fn walk(&self, tree: &WordTree, index: u64) -> u64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.fast.percpu.walk(tree, index) }
    }
}

impl<C: StackConfig> Host for Stack<C> {
    fn pages(&self) -> &PageAllocator {
        self.inner().pages
    }

    fn slot(&self) -> SlotIndex {
        self.fast.percpu.current()
    }

    fn metadata(&self) -> &Metadata {
        self.inner().metadata
    }

    fn slots(&self) -> u32 {
        self.fast.percpu.area().slots()
    }

    fn groups(&self) -> &Groups {
        &self.balancing.groups
    }

    unsafe fn free_private(&self, cache: CacheId, objects: &[Object]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.cache(cache).free_bulk(objects) };
    }

    fn make_room(&self, frames: u32, attempt: &mut dyn FnMut() -> bool) -> bool {
        let frames = match (frames, self.page_cache.nodes()) {
            (0, Some(nodes)) => self.cache(nodes).order().frames(),
            _ => frames,
        };
        self.reclaim_for(Claimant::Cache, frames, attempt)
    }
}
