//! The source of slabs: the page allocator, with any policy for its pcp lists.
//!
//! Slab policies call it through a trait object, and so are compiled once for all page policies.

use crate::frame::{Order, Pfn};
use crate::pcp::{Page, PageAllocator, PagePolicy, PageRequest};
use quarry_sys::percpu::SlotIndex;

/// The methods of the page allocator that slab policies use.
pub trait SlabPages {
    /// See [`PageAllocator::alloc`].
    fn alloc(&self, slot: SlotIndex, request: PageRequest) -> Option<Page>;

    /// See [`PageAllocator::free`].
    fn free(&self, slot: SlotIndex, pfn: Pfn, order: Order);

    /// See [`PageAllocator::free_list`].
    fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]);
}

impl<P: PagePolicy> SlabPages for PageAllocator<P> {
    fn alloc(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        self.alloc(slot, request)
    }

    fn free(&self, slot: SlotIndex, pfn: Pfn, order: Order) {
        self.free(slot, pfn, order);
    }

    fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]) {
        self.free_list(slot, pages);
    }
}
