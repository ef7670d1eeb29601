//! The lists of one slot and node under their lock: allocation, freeing and draining.

use super::drain::Drain;
use super::lists::Lists;
use super::policy::{PagePolicy, PolicyContext};
use super::ring::SlotRings;
use super::store::ListStore;
use crate::frame::{End, FrameState, FrameTable, NodeId, Order};
use crate::zone::{AllocFlags, Ask, Block, Destination, Mark, Page, Zone};
use quarry_sys::lock::Guard;

#[derive(Clone, Copy)]
pub(super) struct ListRef<'a> {
    pub(super) store: &'a ListStore,
    pub(super) index: usize,
    pub(super) node: NodeId,
}

pub(super) struct LockedLists<'a> {
    pub(super) at: ListRef<'a>,
    pub(super) lists: Guard<'a, Lists>,
}

impl<'a> ListRef<'a> {
    #[inline(always)]
    fn rings(self) -> SlotRings<'a> {
        self.store.rings.at(self.index)
    }

    #[inline(always)]
    fn zone(self) -> &'a Zone {
        self.store.zones.zone(self.node)
    }

    #[inline(always)]
    fn frames(self) -> &'a FrameTable {
        self.store.zones.frames()
    }

    #[inline(always)]
    pub(super) fn context(self) -> PolicyContext<'a> {
        PolicyContext { sizes: self.store.sizes, zone: self.zone() }
    }

    #[inline(always)]
    pub(super) fn try_lock(self) -> Option<LockedLists<'a>> {
        Some(LockedLists { at: self, lists: self.store.pcps.at(self.index).lists.try_lock()? })
    }

    pub(super) fn lock(self) -> LockedLists<'a> {
        LockedLists { at: self, lists: self.store.pcps.at(self.index).lists.lock() }
    }
}

impl<'a> LockedLists<'a> {
    #[inline(always)]
    pub(super) fn pop(&mut self, list: usize, order: Order) -> Option<Page> {
        let lists = &mut *self.lists;
        let pfn = self.at.rings().pop_head(list, &mut lists.rings[list])?;
        lists.tuning.count -= order.frames();
        let state = self.at.frames().state(pfn);
        if !state.is_listed(order) {
            return self.pop_past_bad(list, order);
        }
        self.at.frames().set_state(pfn, FrameState::USED);
        lists.counters.allocs += 1;
        Some(Page { pfn, zeroed: state.is_zeroed() })
    }

    /// Drops a block with a wrong state, and takes the block after it.
    #[cold]
    #[inline(never)]
    fn pop_past_bad(&mut self, list: usize, order: Order) -> Option<Page> {
        self.lists.counters.bad_blocks += 1;
        self.pop(list, order)
    }

    /// Fetches blocks for an empty list in one critical section, and takes the first; the others
    /// stay listed in the zone's order. A refill may not use the high-order reserve: if it gets no
    /// block, a request with this right goes to the zone itself (`rmqueue_bulk` until Linux 6.19).
    /// (On fresh memory the batches of two CPUs are neighbours, and share a cache line of 64 state
    /// bytes. An unused line between them did not help, because processors fetch lines in pairs.)
    #[cold]
    #[inline(never)]
    pub(super) fn refill_and_pop<P: PagePolicy>(
        &mut self,
        policy: &P,
        list: usize,
        ask: &Ask,
        mark: Mark,
    ) -> Option<Page> {
        if !policy.tests_every_request() && !self.admits(ask, mark) {
            return None;
        }
        let lists = &mut *self.lists;
        let wanted = policy.refill(&mut lists.tuning, self.at.context(), ask.order);
        let (rings, ring) = (self.at.rings(), &mut lists.rings[list]);
        let wanted = wanted.min(rings.room(list, *ring));
        let plain = Ask { flags: AllocFlags::default(), ..*ask };
        let got =
            self.at.store.zones.take(self.at.node, &plain, wanted, Destination::Pcp, |pfn, _| {
                rings.push_tail(list, ring, pfn);
            });
        lists.tuning.count += got << ask.order.get();
        lists.counters.refills += 1;
        lists.counters.refilled_blocks += u64::from(got);
        self.pop(list, ask.order)
    }

    /// Not inlined, so that [`Zone::admits`] is off the call stack while blocks are fetched.
    #[inline(never)]
    fn admits(&self, ask: &Ask, mark: Mark) -> bool {
        self.at.zone().admits(ask, mark)
    }

    /// Puts a block at one end of a list; returns the number of pages to drain now.
    #[inline(always)]
    pub(super) fn push<P: PagePolicy>(
        &mut self,
        policy: &P,
        list: usize,
        block: Block,
        end: End,
    ) -> u32 {
        if self.at.rings().is_full(list, self.lists.rings[list]) {
            self.spill(list, block.order);
        }
        self.at.frames().set_state(block.pfn, FrameState::in_pcp(block.order, block.zeroed));
        let lists = &mut *self.lists;
        let (rings, ring) = (self.at.rings(), &mut lists.rings[list]);
        match end {
            End::Head => rings.push_head(list, ring, block.pfn),
            End::Tail => rings.push_tail(list, ring, block.pfn),
        }
        lists.tuning.count += block.order.frames();
        lists.counters.frees += 1;
        policy.after_free(&mut lists.tuning, self.at.context(), block.order)
    }

    /// Gives the older half of a full list back to the zone.
    #[cold]
    #[inline(never)]
    fn spill(&mut self, list: usize, order: Order) {
        let (frames, rings) = (self.at.frames(), self.at.rings());
        let lists = &mut *self.lists;
        let spilled = lists.rings[list].len().div_ceil(2);
        self.at.store.zones.put(
            self.at.node,
            (0..spilled).filter_map(|_| {
                let pfn = rings.pop_tail(list, &mut lists.rings[list])?;
                let state = frames.state(pfn);
                lists.counters.bad_blocks += u64::from(!state.is_listed(order));
                state.is_listed(order).then_some(Block { pfn, order, zeroed: state.is_zeroed() })
            }),
        );
        lists.tuning.count -= spilled << order.get();
        lists.counters.drains += 1;
        lists.counters.drained_pages += u64::from(spilled << order.get());
    }

    /// Gives `pages` pages back, beginning with `list`. Releases the lock of the lists between the
    /// policy's chunks; returns `None` if another thread takes the lock in between.
    #[cold]
    #[inline(never)]
    pub(super) fn drain<P: PagePolicy>(
        mut self,
        policy: &P,
        mut pages: u32,
        list: usize,
    ) -> Option<Self> {
        let chunk = policy.drain_chunk(self.at.context().sizes);
        loop {
            // A chunk may drain a few pages too many; later chunks are not shortened for that.
            self.drain_chunk(policy, pages.min(chunk), list);
            pages = pages.saturating_sub(chunk);
            if pages == 0 || self.lists.tuning.count == 0 {
                break;
            }
            let at = self.at;
            drop(self);
            self = at.try_lock()?;
        }
        let zone = self.at.zone();
        if zone.is_below_high() && zone.watermark_ok(Order::ZERO, Mark::High, AllocFlags::default())
        {
            zone.set_below_high(false);
        }
        Some(self)
    }

    /// Gives `pages` pages, or a few more, back in one critical section of the zone.
    pub(super) fn drain_chunk<P: PagePolicy>(&mut self, policy: &P, pages: u32, list: usize) {
        let before = self.lists.tuning.count;
        if before == 0 {
            return;
        }
        let (frames, rings) = (self.at.frames(), self.at.rings());
        let how = (policy.orders(), policy.walk());
        let drain = Drain::new(&mut self.lists, rings, frames, how, pages, list);
        self.at.store.zones.put(self.at.node, drain);
        let done = before - self.lists.tuning.count;
        self.lists.counters.drains += 1;
        self.lists.counters.drained_pages += u64::from(done);
    }
}
