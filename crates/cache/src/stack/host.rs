//! A stack with a page cache: the interface to the layers below, and for users of the stack.

use super::caching::PageCaching;
use super::pressure::PressureEvents;
use super::shrinkers::Shrinkers;
use crate::lru::LruPolicy;
use crate::page_cache::index::{NODE_ALIGN, NODE_BYTES};
use crate::page_cache::{Host, NodeHost, PageCacheRef};
use quarry_mm::frame::{Metadata, NodeId};
use quarry_mm::pcp::PageAllocator;
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams};
use quarry_mm::stack::{Claimant, StackHost};
use quarry_mm::zone::Groups;
use quarry_sys::os::OsResult;
use quarry_sys::own_stack;
use quarry_sys::percpu::{Object, PerCpu, SlotIndex, WordTree};

/// A stack whose cache is a page cache.
pub trait CachingStack: StackHost<Cache = PageCaching<<Self as Host>::Lru>> + Host {
    /// The page cache; makes its tables at the first call. O(1) after that.
    ///
    /// # Errors
    /// If the system refuses memory for the tables, or the stack can have no further slab cache.
    ///
    /// # Panics
    /// If the stack is not initialised.
    fn page_cache(&self) -> OsResult<PageCacheRef<'_, Self>> {
        match self.used_page_cache() {
            Some(cache) => Ok(cache),
            None => own_stack::run(|| build_page_cache(self)),
        }
    }

    /// The page cache, if it has been used. O(1).
    #[inline]
    fn used_page_cache(&self) -> Option<PageCacheRef<'_, Self>> {
        self.cached().pages.opened(self)
    }

    /// The shrinkers. The caller that registers the first one also calls
    /// [`Budget::keep_reserve`](quarry_mm::zone::Budget::keep_reserve).
    #[must_use]
    fn shrinkers(&self) -> &Shrinkers {
        &self.cached().balancing.shrinkers
    }

    /// The level of the shortage of memory, and its callbacks.
    #[must_use]
    fn pressure(&self) -> &PressureEvents {
        &self.cached().balancing.pressure
    }

    /// The groups that pages are charged to.
    #[must_use]
    fn groups(&self) -> &Groups {
        &self.cached().balancing.groups
    }
}

impl<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>> CachingStack for S {}

#[inline(never)]
fn build_page_cache<S: CachingStack>(stack: &S) -> OsResult<PageCacheRef<'_, S>> {
    let options = stack.cache_options();
    stack.cached().pages.open(stack, &options.pages, options.lru, || {
        StackHost::pages(stack).zones().budget().keep_reserve();
        let params = CacheParams { size: NODE_BYTES, align: NODE_ALIGN };
        stack.create_cache("radix_tree_node", &params, &CacheOptions::default())
    })
}

impl<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>> NodeHost for S {
    fn alloc_node(&self) -> Option<Object> {
        // No reclaim here: the request that needs the node reclaims, depending on its effort.
        self.alloc_object(self.cached().pages.nodes()?)
    }

    unsafe fn free_nodes(&self, nodes: &[Object]) {
        let Some(id) = self.cached().pages.nodes() else { return };
        // SAFETY: the nodes came from this cache, and no task uses them (the caller's promise).
        unsafe { self.free_objects(id, nodes) };
    }

    fn wait_for_walks(&self) -> bool {
        self.percpu().wait_for_walks()
    }

    fn node_of(&self, node: Object) -> NodeId {
        let pages = StackHost::pages(self);
        let home = |pfn| pages.memory().pageblocks().of(pfn).tag().node();
        pages.arena().pfn(node.as_ptr()).and_then(home).unwrap_or(NodeId(0))
    }

    #[inline(always)]
    unsafe fn walk(&self, tree: &WordTree, index: u64) -> u64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.percpu().walk(tree, index) }
    }
}

impl<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>> Host for S {
    type Pages = <S as StackHost>::Pages;
    type Lru = P;

    #[inline]
    fn pages(&self) -> &PageAllocator<Self::Pages> {
        StackHost::pages(self)
    }

    fn slot(&self) -> SlotIndex {
        self.percpu().current()
    }

    fn metadata(&self) -> &Metadata {
        StackHost::metadata(self)
    }

    fn slots(&self) -> u32 {
        self.percpu().area().slots()
    }

    fn groups(&self) -> &Groups {
        CachingStack::groups(self)
    }

    unsafe fn free_private(&self, cache: CacheId, objects: &[Object]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.free_objects(cache, objects) };
    }

    fn make_room(&self, frames: u32, attempt: &mut dyn FnMut() -> bool) -> bool {
        let frames = match (frames, self.cached().pages.nodes()) {
            (0, Some(nodes)) => self.slab_frames(nodes),
            _ => frames,
        };
        self.reclaim_for(Claimant::Cache, frames, attempt)
    }
}
