//! Blocks of one node: requests and frees at the lists of a slot, or else at the node's zone.

use super::allocator::PageAllocator;
use super::policy::PagePolicy;
use crate::frame::{End, MigrateType, NodeId, Order, PCP_TYPES, Pfn};
use crate::zone::{Ask, Block, Destination, Mark, Page};
use quarry_sys::percpu::SlotIndex;

impl<P: PagePolicy> PageAllocator<P> {
    /// The list for blocks of `order` and type `of`. Blocks of the high-order reserve go to movable
    /// lists. Later they return to the reserve, because their pageblock keeps its type.
    #[inline]
    fn list(&self, order: Order, of: MigrateType) -> Option<usize> {
        let of = if of.index() < PCP_TYPES { of } else { MigrateType::Movable };
        self.policy.list(order, of)
    }

    /// Takes one block of a node: from the list, from a refill, or from the zone. A refill or the
    /// zone serves the request only if the zone then stays above `mark`. If
    /// [`PagePolicy::tests_every_request`] is true, this holds for the list too.
    #[inline(always)]
    pub(super) fn alloc_at_node(
        &self,
        slot: SlotIndex,
        node: NodeId,
        ask: &Ask,
        mark: Mark,
    ) -> Option<Page> {
        let policy = &self.policy;
        if policy.tests_every_request() && !self.zones().zone(node).admits(ask, mark) {
            return None;
        }
        if let Some(list) = self.list(ask.order, ask.migratetype)
            && let Some(mut locked) = self.lists(slot, node).try_lock()
        {
            policy.before_alloc(&mut locked.lists.tuning);
            if let Some(page) = locked.pop(list, ask.order) {
                return Some(page);
            }
            if let Some(page) = locked.refill_and_pop(policy, list, ask, mark) {
                return Some(page);
            }
        }
        self.alloc_at_zone(slot, node, ask, mark)
    }

    #[cold]
    fn alloc_at_zone(&self, slot: SlotIndex, node: NodeId, ask: &Ask, mark: Mark) -> Option<Page> {
        let mut page = [Page { pfn: Pfn::NONE, zeroed: false }];
        (self.bulk_at_zone(slot, node, ask, mark, &mut page) == 1).then_some(page[0])
    }

    fn bulk_at_zone(
        &self,
        slot: SlotIndex,
        node: NodeId,
        ask: &Ask,
        mark: Mark,
        out: &mut [Page],
    ) -> usize {
        if !self.zones().zone(node).watermark_ok(ask.order, mark, ask.flags) {
            return 0;
        }
        let mut filled = 0;
        let count = out.len() as u32;
        self.zones().take(node, ask, count, Destination::User, |pfn, zeroed| {
            out[filled] = Page { pfn, zeroed };
            filled += 1;
        });
        self.store.pcp(slot, node).bypass_alloc(filled as u64);
        filled
    }

    /// Takes up to `out.len()` blocks of a node in one hold of the lists' lock. If that is not
    /// possible, takes them in one critical section of the zone.
    pub(super) fn alloc_bulk_at_node(
        &self,
        slot: SlotIndex,
        node: NodeId,
        ask: &Ask,
        out: &mut [Page],
    ) -> usize {
        let policy = &self.policy;
        let Some(list) = self.list(ask.order, ask.migratetype) else {
            return self.bulk_at_zone(slot, node, ask, Mark::Low, out);
        };
        if policy.tests_every_request() && !self.zones().zone(node).admits(ask, Mark::Low) {
            return 0;
        }
        let Some(mut locked) = self.lists(slot, node).try_lock() else {
            return self.bulk_at_zone(slot, node, ask, Mark::Low, out);
        };
        let mut filled = 0;
        while filled < out.len() {
            let page = locked
                .pop(list, ask.order)
                .or_else(|| locked.refill_and_pop(policy, list, ask, Mark::Low));
            let Some(page) = page else { break };
            out[filled] = page;
            filled += 1;
        }
        filled
    }

    /// Gives a block back; aborts the process if it is free, misaligned, or in no zone. O(1).
    #[inline]
    pub fn free(&self, slot: SlotIndex, pfn: Pfn, order: Order) {
        let (node, of) = self.check_freed(pfn, order);
        let policy = &self.policy;
        if let Some(list) = self.list(order, of)
            && let Some(mut locked) = self.lists(slot, node).try_lock()
        {
            locked.lists.counters.critical_sections += 1;
            let block = Block { pfn, order, zeroed: false };
            let drain = locked.push(policy, list, block, End::Head);
            if drain > 0 {
                locked.drain(policy, drain, list);
            }
            return;
        }
        self.free_past_lists((slot, node), (&[(pfn, order)], false), None);
    }

    #[cold]
    pub(super) fn free_at_zone(
        &self,
        slot: SlotIndex,
        node: NodeId,
        blocks: impl Iterator<Item = Block>,
    ) {
        let count = self.zones().put(node, blocks);
        self.store.pcp(slot, node).bypass_free(count);
    }

    /// Frees the blocks of one node among the checked `pages` in one hold of the lists' lock, and
    /// those without a list in one critical section of the zone. All go to the zone if another
    /// thread has the lock, or if the running task reclaims: a reclaim counts only frames in the
    /// zone as freed.
    pub(super) fn free_section(
        &self,
        at: (SlotIndex, NodeId),
        pages: &[(Pfn, Order)],
        (zeroed, end): (bool, End),
    ) {
        if self.zones().budget().reclaimers().is_in() {
            return self.free_past_lists(at, (pages, zeroed), None);
        }
        let ((slot, node), policy) = (at, &self.policy);
        let Some(mut locked) = self.lists(slot, node).try_lock() else {
            return self.free_past_lists(at, (pages, zeroed), None);
        };
        locked.lists.counters.critical_sections += 1;
        let (mut rest, mut unlisted) = (pages.iter(), false);
        while let Some(&(pfn, order)) = rest.next() {
            let tag = self.memory().pageblocks().of(pfn).tag();
            if tag.node() != Some(node) {
                continue;
            }
            let Some(list) = self.list(order, tag.migratetype()) else {
                unlisted = true;
                continue;
            };
            let drain = locked.push(policy, list, Block { pfn, order, zeroed }, end);
            if drain > 0 {
                match locked.drain(policy, drain, list) {
                    Some(again) => locked = again,
                    None => {
                        self.free_past_lists(at, (rest.as_slice(), zeroed), Some(true));
                        unlisted = true;
                        break;
                    }
                }
            }
        }
        if unlisted {
            self.free_past_lists(at, (pages, zeroed), Some(false));
        }
    }

    /// Frees blocks of the node among `pages` to the zone: all of them, only those that have a list
    /// (`Some(true)`), or only those without one.
    #[cold]
    #[inline(never)]
    fn free_past_lists(
        &self,
        (slot, node): (SlotIndex, NodeId),
        (pages, zeroed): (&[(Pfn, Order)], bool),
        listed: Option<bool>,
    ) {
        let is_meant = |&&(pfn, order): &&(Pfn, Order)| {
            let tag = self.memory().pageblocks().of(pfn).tag();
            let has_list = || self.list(order, tag.migratetype()).is_some();
            tag.node() == Some(node) && listed.is_none_or(|listed| listed == has_list())
        };
        if pages.iter().any(|page| is_meant(&page)) {
            let block = |&(pfn, order): &(Pfn, Order)| Block { pfn, order, zeroed };
            self.free_at_zone(slot, node, pages.iter().filter(is_meant).map(block));
        }
    }
}
