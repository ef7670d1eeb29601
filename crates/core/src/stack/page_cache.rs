//! The page cache of a stack: what it stands on.

use super::config::StackConfig;
use super::instance::Stack;
use crate::frame::Metadata;
use crate::page_cache::{CacheHost, Host, PageCacheRef};
use crate::pcp::PageAllocator;
use crate::slab::{CacheId, CacheParams, SlabPolicy};
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, PerCpu, SlotIndex};

/// Bytes of an index node (`radix_tree_node`, Linux 4.15), and its alignment.
const NODE_BYTES: usize = 576;
const NODE_ALIGN: usize = 64;

impl<C: StackConfig> Stack<C> {
    /// The page cache, whose tables are made at the first call. O(1) after that.
    ///
    /// # Errors
    /// Where the system refuses memory for them, or a stack has as many slab caches as it can.
    ///
    /// # Panics
    /// Where the stack is not initialised.
    pub fn page_cache(&self) -> OsResult<PageCacheRef<'_, Self>> {
        self.page_cache.open(self, &self.inner().page_cache, || {
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

impl<C: StackConfig> Host for Stack<C> {
    fn pages(&self) -> &PageAllocator {
        self.inner().pages
    }

    fn slot(&self) -> SlotIndex {
        self.fast.percpu.current()
    }

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
        // Every walk is under the lock of its mapping.
        true
    }
}

impl<C: StackConfig> CacheHost for Stack<C> {
    fn metadata(&self) -> &Metadata {
        self.inner().metadata
    }

    fn slots(&self) -> u32 {
        self.fast.percpu.area().slots()
    }

    unsafe fn free_private(&self, cache: CacheId, objects: &[Object]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.cache(cache).free_bulk(objects) };
    }

    fn make_room(&self, frames: u32) -> bool {
        self.after_reclaim(frames, || Some(())).is_some()
    }
}
