//! Allocation. A request takes a block from the lists of its CPU, or from a zone above its low
//! mark. If neither has one, the slow path follows (`__alloc_pages_slowpath`): a request that
//! cannot wait uses the frames below the low mark at once; other requests first let zones grow.

use super::allocator::PageAllocator;
use super::extents::MOST_LOST;
use super::policy::PagePolicy;
use crate::frame::{MAX_NODES, MigrateType, NodeId, Order};
use crate::zone::{AllocFlags, Ask, Mark, Page, Urgency};
use quarry_sys::own_stack;
use quarry_sys::percpu::SlotIndex;

/// A request to the page allocator.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// Size of the block.
    pub order: Order,
    /// The migratetype that fits the future contents.
    pub migratetype: MigrateType,
    /// Rights to reserves, and whether the request may wait.
    pub flags: AllocFlags,
    /// The node to try first.
    pub node: NodeId,
}

impl PageRequest {
    #[inline]
    fn ask(self) -> Ask {
        Ask { order: self.order, migratetype: self.migratetype, flags: self.flags }
    }

    /// Same as [`ask`](Self::ask), without the rights that apply only once no block was found.
    #[inline]
    fn usual(self) -> Ask {
        Ask { flags: AllocFlags::default(), ..self.ask() }
    }
}

impl<P: PagePolicy> PageAllocator<P> {
    /// Takes a block; returns `None` if the request's watermarks leave none. O(1) from the lists.
    #[inline]
    pub fn alloc(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        match self.alloc_above_low(slot, request) {
            Some(page) => Some(page),
            None => self.alloc_from_zone(slot, request),
        }
    }

    #[inline(never)]
    fn alloc_above_low(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        self.alloc_at_node(slot, request.node, &request.usual(), Mark::Low)
    }

    /// Takes a block from the request's node, if the node then stays above `mark`. Uses the
    /// reserves to which the request has a right.
    pub fn alloc_above(&self, slot: SlotIndex, request: PageRequest, mark: Mark) -> Option<Page> {
        self.alloc_at_node(slot, request.node, &request.ask(), mark)
    }

    /// Takes up to `out.len()` blocks, from the request's node if possible; returns how many. Takes
    /// at least one if [`alloc`](Self::alloc) would succeed.
    pub fn alloc_bulk(&self, slot: SlotIndex, request: PageRequest, out: &mut [Page]) -> usize {
        let ask = request.usual();
        let bulk = |out: &mut [Page]| self.alloc_bulk_at_node(slot, request.node, &ask, out);
        let filled = if out.len() > 1 { bulk(out) } else { 0 };
        if filled > 0 || out.is_empty() {
            return filled;
        }
        let Some(page) = self.alloc(slot, request) else { return 0 };
        out[0] = page;
        // [`alloc`](Self::alloc) may have let the zone grow, so try again for the rest.
        1 + bulk(&mut out[1..])
    }

    /// Tries in turn: to grow the zones, node by node; to use the reserve; to take blocks back from
    /// all lists and from the high-order reserve.
    #[cold]
    #[inline(never)]
    fn alloc_from_zone(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        if request.flags.non_block {
            return self.alloc_without_waiting(slot, request);
        }
        // The loop repeats because other CPUs may take the new room first. CPUs that begin together
        // share one step of growth.
        for node in self.zones().fallback_order(request.node) {
            let request = PageRequest { node, ..request };
            for _ in 0..MOST_LOST {
                let has_room = self.make_room(request);
                let page = self.alloc_above_low(slot, request);
                if page.is_some() {
                    return page;
                }
                if !has_room {
                    break;
                }
            }
        }
        self.alloc_below_low(slot, request)
    }

    #[inline(never)]
    fn alloc_below_low(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        let page = self.alloc_reserve(slot, request);
        page.or_else(|| own_stack::run(|| self.alloc_last(slot, request)))
    }

    /// Turns extents into blocks, and grows the zone if that is not enough. Returns whether the
    /// zone can now serve the request above its low mark.
    #[inline(never)]
    fn make_room(&self, request: PageRequest) -> bool {
        let (node, ask) = (request.node, request.usual());
        self.zones().flush_extents_for(node, ask.order)
            || self.zones().grow(node, &ask, Urgency::Low)
    }

    /// Serves a request that cannot wait. Uses the reserve and turns extents into blocks, but
    /// neither calls the operating system nor takes from other CPUs (no `__GFP_DIRECT_RECLAIM`).
    fn alloc_without_waiting(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        self.alloc_reserve(slot, request).or_else(|| {
            for node in self.zones().fallback_order(request.node) {
                self.zones().flush_extents_for(node, request.order);
            }
            self.alloc_reserve(slot, request)
        })
    }

    /// Tries all nodes down to their min mark, with the rights of the request.
    #[inline(never)]
    fn alloc_reserve(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        let ask = request.ask();
        for node in self.zones().fallback_order(request.node) {
            let page = self.alloc_at_node(slot, node, &ask, Mark::Min);
            if let Some(page) = page {
                if ask.flags.high_atomic && ask.order.get() > 0 {
                    self.zones().reserve_high_atomic(node, page.pfn, ask.order);
                }
                return Some(page);
            }
        }
        None
    }

    #[inline(never)]
    fn alloc_last(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        self.drain_all();
        // While this thread holds these locks, no purge can take the blocks that the drain has put
        // back. Until it releases them, this thread only tries locks of lists, and waits for none.
        let mut held = [const { None }; MAX_NODES];
        for (zone, held) in self.zones().all().zip(&mut held) {
            *held = Some(zone.hold_purges());
            zone.clear_boost();
        }
        self.zones().flush_extents();
        for _ in 0..MOST_LOST {
            let mut has_room = false;
            for node in self.zones().fallback_order(request.node) {
                has_room |= self.zones().grow(node, &request.ask(), Urgency::Last);
            }
            let page = self.alloc_reserve(slot, request);
            if page.is_some() {
                return page;
            }
            if !has_room {
                break;
            }
        }
        while self
            .zones()
            .fallback_order(request.node)
            .any(|node| self.zones().unreserve_high_atomic(node, request.migratetype, true))
        {
            let page = self.alloc_reserve(slot, request);
            if page.is_some() {
                return page;
            }
        }
        None
    }
}
