//! A stack as the host of its cache and its instruments: adapts the trait to the stack's functions.

use super::cached_pages::{CachedPages, StackHost};
use super::call::{Entry, Misuse, Request};
use super::instance::{Stack, StackConfig};
use super::instruments::Instrument;
use super::miss::Claimant;
use super::stash::Stash;
use crate::frame::Metadata;
use crate::pcp::PageAllocator;
use crate::slab::{CacheId, CacheOptions, CacheParams};
#[cfg(feature = "groups")]
use crate::zone::Groups;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::Object;

impl<C: StackConfig> StackHost for Stack<C> {
    type Cache = C::Cache;
    type Pages = C::Pages;
    type PerCpu = C::PerCpu;

    #[inline]
    fn cached(&self) -> &C::Cache {
        &self.cache
    }

    fn cache_options(&self) -> &<C::Cache as CachedPages>::Options {
        &self.built().cache
    }

    #[inline]
    fn pages(&self) -> &PageAllocator<C::Pages> {
        self.pages()
    }

    #[cfg(feature = "groups")]
    #[inline]
    fn groups(&self) -> &Groups {
        &self.groups
    }

    fn metadata(&self) -> &Metadata {
        &self.built().metadata
    }

    #[inline]
    fn percpu(&self) -> &C::PerCpu {
        &self.fast.percpu
    }

    fn has_classes(&self) -> bool {
        self.has_classes()
    }

    fn create_cache(
        &self,
        name: &str,
        params: &CacheParams,
        options: &CacheOptions,
    ) -> OsResult<CacheId> {
        self.create_cache(name, params, options)
    }

    fn alloc_object(&self, cache: CacheId) -> Option<Object> {
        self.cache(cache).alloc_held()
    }

    unsafe fn free_objects(&self, cache: CacheId, objects: &[Object]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.cache(cache).free_bulk(objects) };
    }

    fn slab_frames(&self, cache: CacheId) -> u32 {
        self.known_cache(cache).order().frames()
    }

    fn switch_instrument(&self, instrument: Instrument, on: bool) {
        self.switch_instrument(instrument, on);
    }

    fn unseen_bytes(&self, address: *mut u8) -> Option<usize> {
        self.unseen_bytes(address)
    }

    fn alloc_unseen(&self, request: Request) -> Option<Object> {
        self.alloc_unseen(request)
    }

    unsafe fn free_unseen(&self, object: Object) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.free_unseen(object) };
    }

    fn misuse(&self, entry: Entry, address: *mut u8, misuse: Misuse) -> ! {
        self.misuse(entry, address, misuse)
    }

    fn reclaim_for(
        &self,
        claimant: Claimant,
        frames: u32,
        attempt: &mut dyn FnMut() -> bool,
    ) -> bool {
        self.reclaim_for(claimant, frames, attempt)
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
