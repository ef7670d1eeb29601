//! The parts of a stack that slab policies use.

use super::cache::Cache;
use super::cache_limits::CacheLimits;
use super::table::CacheTable;
use crate::frame::{FRAME_SHIFT, Metadata, Pfn};
use crate::pcp::PageAllocator;
use quarry_sys::percpu::{Object, PerCpu};

/// Objects that one slow-path step moves at most: the size of its buffer on the stack.
pub const MAX_BATCH: usize = 64;

/// The parts of a stack that a slab policy uses.
pub struct SlabContext<'a, P: PerCpu> {
    /// The per-CPU slots.
    pub percpu: &'a P,
    /// Where slabs come from.
    pub pages: &'a PageAllocator,
    /// Where descriptors come from.
    pub metadata: &'a Metadata,
    /// All caches of the stack.
    pub caches: &'a CacheTable,
    /// Bytes that caches hold together beyond what is in use, and bounds for them.
    pub limits: &'a CacheLimits,
    /// CPUs that formulas of the kernel are fed with.
    pub declared_cpus: u32,
}

impl<P: PerCpu> SlabContext<'_, P> {
    /// The first frame of the slab that an object of `cache` lies in. O(1).
    #[must_use]
    pub fn slab_of(&self, cache: &Cache, object: Object) -> Pfn {
        let base = self.pages.arena().base().as_ptr() as usize;
        let offset = object.as_ptr() as usize - base;
        Pfn((offset >> FRAME_SHIFT) as u32).align_down(cache.order())
    }
}
