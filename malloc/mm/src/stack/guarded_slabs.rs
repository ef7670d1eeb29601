//! The source of slabs, under `QUARRY_HARDEN` each with a guard.
//!
//! A slab of order `k` is then the lower half of a block of order `k + 1`. The upper half is its
//! guard: it faults, has no memory, and the budget exempts it. So a linear overflow faults within
//! the length of its slab, and the memory before most slabs is the guard of another. If there is no
//! such block, or the system refuses the guard, the slab has none.
//!
//! The frame after a slab has the kind `GUARD` iff the slab's own guard begins there: any other
//! guard follows another slab.

use super::instance::{Built, StackConfig, Watch};
use crate::frame::{Kind, Order, Pfn};
use crate::pcp::{Page, PageRequest};
use crate::slab::SlabPages;
use quarry_sys::percpu::SlotIndex;

const BATCH: usize = 8;

impl<C: StackConfig> Built<C> {
    fn guards_slabs(&self, order: Order) -> bool {
        C::Watch::MAY_RECORD && self.guards_slabs && order < Order::PAGEBLOCK
    }

    #[inline(never)]
    fn alloc_guarded(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        let order = request.order;
        let page = self.pages.alloc(slot, PageRequest { order: double(order), ..request })?;
        let upper = page.pfn.plus(order.frames());
        if self.pages.zones().guard(upper, order.frames()) {
            self.pages.zones().budget().exempt(order.frames());
        } else {
            self.pages.free(slot, upper, order);
        }
        Some(page)
    }

    /// Ends the guard of a slab, if it has one. Returns the order of the block to give back.
    fn end_guard(&self, pfn: Pfn, order: Order) -> Order {
        let (zones, upper, frames) = (self.pages.zones(), pfn.plus(order.frames()), order.frames());
        let is_guarded = self.guards_slabs(order)
            && pfn.is_aligned(double(order))
            && zones.frames().kind(upper) == Kind::GUARD;
        if !is_guarded || !zones.unguard(upper, frames) {
            return order;
        }
        zones.budget().end_exemption(frames);
        double(order)
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
        self.pages.free(slot, pfn, self.end_guard(pfn, order));
    }

    fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]) {
        if !self.guards_slabs(Order::ZERO) {
            return self.pages.free_list(slot, pages);
        }
        for piece in pages.chunks(BATCH) {
            let mut whole = [(Pfn::NONE, Order::ZERO); BATCH];
            for (whole, (pfn, order)) in whole.iter_mut().zip(piece) {
                *whole = (*pfn, self.end_guard(*pfn, *order));
            }
            self.pages.free_list(slot, &whole[..piece.len()]);
        }
    }
}
