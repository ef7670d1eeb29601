//! The slabs below the sheaves, and all else in which versions of Linux differ.

use super::capacity;
use core::mem::MaybeUninit;
use quarry_mm::frame::Pfn;
use quarry_mm::slab::{
    BitmapSlabs, CacheIn, CacheParams, MAX_CACHES, Occupancy, SlabContext, SlabLayout, SlabStats,
};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Arrays, Object};

/// The slabs below the sheaves of one version. No method is called while a sheaf's owner holds the
/// lock of a barn.
pub trait Below<P: Arrays>: Sync + Sized {
    /// Name of the policy.
    const NAME: &'static str;

    /// No slabs: all zero bytes.
    const NEW: Self;

    /// True if the slabs write links to free objects.
    const LINKS_THROUGH_OBJECTS: bool = false;

    /// Bytes of metadata per frame.
    const BYTES_PER_FRAME: usize = 0;

    /// The layout of slabs on a machine of so many CPUs.
    fn layout(params: &CacheParams, declared_cpus: u32) -> SlabLayout;

    /// Number of objects in a sheaf of a cache whose objects are `stride` bytes apart and which
    /// asks for `wanted` objects; 0 for a cache without sheaves.
    fn capacity(stride: usize, wanted: Option<u16>) -> usize;

    /// Prepares for a new cache.
    ///
    /// # Errors
    /// If the OS refuses memory.
    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()>;

    /// Fills the front of `out` from slabs, for sheaves of `sheaf` objects; returns the number of
    /// objects.
    fn alloc(&self, cache: CacheIn<'_, P>, sheaf: usize, out: &mut [MaybeUninit<Object>]) -> usize;

    /// Gives objects of the cache, which belong to the caller, back to their slabs.
    fn free(&self, cache: CacheIn<'_, P>, objects: &[Object]);

    /// Gives all empty slabs to the page allocator.
    fn trim(&self, cache: CacheIn<'_, P>);

    /// Adds the counts of slabs and objects, and those of the list locks.
    fn add_stats(&self, cache: CacheIn<'_, P>, stats: &mut SlabStats);

    /// As [`SlabPolicy::occupancy`](quarry_mm::slab::SlabPolicy::occupancy).
    fn occupancy(&self, _cache: CacheIn<'_, P>, _object: Object) -> Option<Occupancy> {
        None
    }

    /// Visits the number of every object that is free in `slab`.
    fn visit_free(&self, cache: CacheIn<'_, P>, slab: Pfn, visit: &mut dyn FnMut(u32));

    /// Visits the locks of all caches.
    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>);

    /// Checks the invariants of a cache; returns the bytes of its empty slabs that the context's
    /// limits count.
    fn validate(&self, cache: CacheIn<'_, P>) -> Result<usize, Broken>;
}

/// Slabs with a bitmap of their free objects, below the sheaves of Linux 6.18.
pub struct Bitmaps([BitmapSlabs; MAX_CACHES]);

impl Bitmaps {
    fn of<P: Arrays>(&self, cache: CacheIn<'_, P>) -> &BitmapSlabs {
        &self.0[cache.id().index()]
    }
}

impl<P: Arrays> Below<P> for Bitmaps {
    const NAME: &'static str = "sheaf-6.18";
    const NEW: Self = Self([const { BitmapSlabs::new() }; MAX_CACHES]);

    fn layout(params: &CacheParams, _declared_cpus: u32) -> SlabLayout {
        BitmapSlabs::layout(params)
    }

    fn capacity(stride: usize, wanted: Option<u16>) -> usize {
        capacity::of(stride, wanted)
    }

    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()> {
        self.of(cache).start();
        Ok(())
    }

    fn alloc(&self, cache: CacheIn<'_, P>, sheaf: usize, out: &mut [MaybeUninit<Object>]) -> usize {
        self.of(cache).of(cache).alloc(sheaf, out).0
    }

    fn free(&self, cache: CacheIn<'_, P>, objects: &[Object]) {
        self.of(cache).of(cache).free(objects, capacity::empty_slabs(cache.stride()));
    }

    fn trim(&self, cache: CacheIn<'_, P>) {
        self.of(cache).of(cache).trim(0);
    }

    fn add_stats(&self, cache: CacheIn<'_, P>, stats: &mut SlabStats) {
        self.of(cache).of(cache).add_stats(stats);
    }

    fn occupancy(&self, cache: CacheIn<'_, P>, object: Object) -> Option<Occupancy> {
        self.of(cache).of(cache).occupancy(object)
    }

    fn visit_free(&self, cache: CacheIn<'_, P>, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        self.of(cache).of(cache).visit_free(slab, visit);
    }

    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>) {
        for cache in context.each_cache() {
            self.of(cache).visit_locks(visit);
        }
    }

    fn validate(&self, cache: CacheIn<'_, P>) -> Result<usize, Broken> {
        self.of(cache).of(cache).validate()
    }
}
