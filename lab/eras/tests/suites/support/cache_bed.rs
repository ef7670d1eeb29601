//! A bed with one cache, of which a test takes objects.

use super::{Bed, VirtualConfig, on_cpu};
use quarry_mm::slab::{CacheId, CacheOptions, CacheParams, SlabPolicy, SlabStats};
use quarry_mm::stack::StackHost;
use quarry_sys::percpu::{Object, VirtualSlots};

pub(crate) struct CacheBed<S: SlabPolicy<VirtualSlots> + 'static> {
    pub(crate) bed: Bed<VirtualConfig<S>>,
    pub(crate) cache: CacheId,
}

impl<S: SlabPolicy<VirtualSlots> + 'static> CacheBed<S> {
    /// Makes a cache of objects of `size` bytes, on CPU 0.
    pub(crate) fn on(bed: Bed<VirtualConfig<S>>, size: usize) -> Self {
        on_cpu(0);
        let params = CacheParams { size, align: 16 };
        let cache = bed.stack.create_cache("test", &params, &CacheOptions::default());
        Self { cache: cache.expect("a cache"), bed }
    }

    pub(crate) fn alloc(&self, count: usize) -> Vec<Object> {
        let cache = self.bed.stack.cache(self.cache);
        (0..count).map(|_| cache.alloc().expect("there is memory")).collect()
    }

    pub(crate) fn free(&self, objects: impl IntoIterator<Item = Object>) {
        for object in objects {
            // SAFETY: the tests free what they have allocated, once.
            unsafe { self.bed.stack.cache(self.cache).free(object) };
        }
    }

    pub(crate) fn stats(&self) -> SlabStats {
        self.bed.stack.cache(self.cache).stats()
    }

    /// Frees the last objects, and checks that nothing is left.
    pub(crate) fn finish(self, objects: impl IntoIterator<Item = Object>) {
        self.free(objects);
        assert_eq!(self.bed.stack.validate(), Ok(()));
        self.bed.assert_empty(&[self.cache]);
    }
}
