//! The policies of a stack, as types.

use super::cached_pages::CachedPages;
use crate::pcp::PagePolicy;
use crate::slab::SlabPolicy;
use quarry_sys::percpu::PerCpu;

/// The policies of a stack.
pub trait StackConfig: 'static {
    /// How CPUs are told apart.
    type PerCpu: PerCpu;
    /// How slab objects travel.
    type Slab: SlabPolicy<Self::PerCpu>;
    /// How pages travel between CPUs and zones.
    type Pages: PagePolicy;
    /// Memory beside the heap that gives way to it: `()`, or a page cache.
    type Cache: CachedPages;
}
