//! A stack as the host of its cache.

use super::cached_pages::{CacheHost, CachedPages};
use super::instance::{Stack, StackConfig};
use super::miss::Claimant;
use super::stash::Stash;
use crate::frame::Metadata;
use crate::pcp::PageAllocator;
use crate::slab::{CacheId, CacheParams};
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, PerCpu, SlotIndex, WordTree};

impl<C: StackConfig> CacheHost for Stack<C> {
    type Cache = C::Cache;
    type Pages = C::Pages;

    #[inline]
    fn cached(&self) -> &C::Cache {
        &self.cache
    }

    fn cache_options(&self) -> &<C::Cache as CachedPages>::Options {
        self.inner().cache
    }

    #[inline]
    fn pages(&self) -> &PageAllocator<C::Pages> {
        self.inner().pages
    }

    fn metadata(&self) -> &Metadata {
        self.inner().metadata
    }

    fn slot(&self) -> SlotIndex {
        self.fast.percpu.current()
    }

    fn slots(&self) -> u32 {
        self.fast.percpu.area().slots()
    }

    fn create_slab_cache(&self, name: &str, params: &CacheParams) -> OsResult<CacheId> {
        self.create_cache(name, params)
    }

    fn alloc_object(&self, cache: CacheId) -> Option<Object> {
        let cache = self.cache(cache);
        cache.alloc_fast().or_else(|| cache.alloc_without_reclaim())
    }

    unsafe fn free_objects(&self, cache: CacheId, objects: &[Object]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.cache(cache).free_bulk(objects) };
    }

    fn slab_frames(&self, cache: CacheId) -> u32 {
        self.cache(cache).order().frames()
    }

    fn wait_for_walks(&self) -> bool {
        self.fast.percpu.wait_for_walks()
    }

    #[inline(always)]
    unsafe fn walk(&self, tree: &WordTree, index: u64) -> u64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.fast.percpu.walk(tree, index) }
    }

    fn reclaim_for(
        &self,
        claimant: Claimant,
        frames: u32,
        attempt: &mut dyn FnMut() -> bool,
    ) -> bool {
        self.reclaim_for(claimant, frames, attempt)
    }

    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        self.timed(work)
    }

    fn give(&self, stash: Stash, frames: u32) {
        self.give(stash, frames);
    }

    fn take_in_parts(&self, frames: u32, missing: &dyn Fn() -> u32) -> bool {
        self.take_in_parts(frames, missing)
    }

    fn shrink_all(&self) {
        self.shrink_all();
    }
}
