//! The source of slabs, under `QUARRY_HARDEN` each with a guard.
//!
//! A block of order `g + 1` has two halves. The upper half is the guard. The slab, of order `k`, is
//! the end of the lower half; what lies before it goes back to the page allocator. `g` is `k`, or
//! the order of a page of the system if that is larger. So a linear overflow faults within the
//! length of its slab, and the memory before most slabs is the guard of another. If there is no
//! such block, or the system refuses the guard, the slab has none.
//!
//! The frame after a slab has the kind `GUARD` iff the slab's own guard begins there: any other
//! guard follows another slab.

use super::instance::{Built, StackConfig, Watch};
use crate::frame::{FRAME_BYTES, Kind, Order, Pfn, page_bytes};
use crate::pcp::{Page, PageRequest};
use crate::slab::SlabPages;
use quarry_sys::percpu::SlotIndex;

const BATCH: usize = 8;

impl<C: StackConfig> Built<C> {
    fn guards_slabs(&self, order: Order) -> bool {
        C::Watch::MAY_RECORD && self.guards_slabs && order < Order::PAGEBLOCK
    }

    /// The order of the guard of a slab.
    fn guard_order(&self, slab: Order) -> Order {
        let page = page_bytes(self.pages.zones().arena().os());
        slab.max(Order::covering((page / FRAME_BYTES) as u32))
    }

    #[inline(never)]
    fn alloc_guarded(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        let (order, guard) = (request.order, self.guard_order(request.order));
        let both = PageRequest { order: double(guard), ..request };
        let mut page = self.pages.alloc(slot, both)?;
        let upper = page.pfn.plus(guard.frames());
        if !self.pages.zones().guard(upper, guard.frames()) {
            self.pages.free(slot, upper, guard);
        }
        for before in (order.get()..guard.get()).rev().map(Order::new) {
            self.pages.free(slot, page.pfn, before);
            page.pfn = page.pfn.plus(before.frames());
        }
        Some(page)
    }

    /// Ends the guard of a slab, if it has one. Returns the order of the block to give back.
    fn end_guard(&self, slot: SlotIndex, pfn: Pfn, order: Order) -> Order {
        let (zones, upper, guard) =
            (self.pages.zones(), pfn.plus(order.frames()), self.guard_order(order));
        let is_guarded = self.guards_slabs(order)
            && upper.0 & (2 * guard.frames() - 1) == guard.frames()
            && zones.frames().kind(upper) == Kind::GUARD;
        if !is_guarded || !zones.unguard(upper, guard.frames()) {
            return order;
        }
        if guard == order {
            return double(order);
        }
        self.pages.free(slot, upper, guard);
        order
    }
}

fn double(order: Order) -> Order {
    Order::new(order.get() + 1)
}

impl<C: StackConfig> SlabPages for Built<C> {
    fn alloc(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        if self.guards_slabs(request.order)
            && let Some(page) = self.alloc_guarded(slot, request)
        {
            return Some(page);
        }
        self.pages.alloc(slot, request)
    }

    fn free(&self, slot: SlotIndex, pfn: Pfn, order: Order) {
        self.pages.free(slot, pfn, self.end_guard(slot, pfn, order));
    }

    fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]) {
        if !self.guards_slabs(Order::ZERO) {
            return self.pages.free_list(slot, pages);
        }
        for piece in pages.chunks(BATCH) {
            let mut whole = [(Pfn::NONE, Order::ZERO); BATCH];
            for (whole, (pfn, order)) in whole.iter_mut().zip(piece) {
                *whole = (*pfn, self.end_guard(slot, *pfn, *order));
            }
            self.pages.free_list(slot, &whole[..piece.len()]);
        }
    }
}
