//! The lists of all slots and nodes under one policy: allocation, freeing, draining.

use super::config::PageConfig;
use super::locked_lists::ListRef;
use super::policy::PagePolicy;
use super::request::Page;
use super::ring::RingSizes;
use super::store::ListStore;
use crate::frame::{End, MigrateType, NodeId, Order, PCP_TYPES, Pfn};
use crate::zone::{Ask, Block, Destination, Mark, Zones};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;

pub(super) struct PcpSet<P> {
    pub(super) policy: P,
    pub(super) store: ListStore,
}

/// The migratetype whose list takes blocks of type `of`. Blocks of the high-order reserve go to
/// movable lists. Later they return to the reserve, because their pageblock keeps its type.
#[inline]
pub(super) fn listed_type(of: MigrateType) -> MigrateType {
    if of.index() < PCP_TYPES { of } else { MigrateType::Movable }
}

impl<P: PagePolicy> PcpSet<P> {
    pub(super) fn reserve(
        os: &'static dyn Os,
        config: &PageConfig<P>,
        zones: &Zones,
        slots: u32,
        ring_sizes: &RingSizes,
    ) -> OsResult<Self> {
        let (policy, nodes) = (config.policy, zones.all().count() as u8);
        let (sizes, orders) = (policy.sizes(config.size_inputs()), policy.orders());
        let store = ListStore::reserve(
            os,
            (slots, nodes),
            sizes,
            orders,
            ring_sizes,
            config.lists_extents,
        )?;
        Ok(Self { policy, store })
    }

    #[inline(always)]
    fn at<'a>(&'a self, zones: &'a Zones, slot: SlotIndex, node: NodeId) -> ListRef<'a> {
        ListRef { store: &self.store, zones, index: self.store.index(slot, node), node }
    }

    /// Takes one block of a node: from the list, from a refill, or from the zone. A refill or the
    /// zone serves the request only if the zone then stays above `mark`. If
    /// [`PagePolicy::tests_every_request`], this holds for the list too.
    #[inline(always)]
    pub(super) fn alloc(
        &self,
        zones: &Zones,
        slot: SlotIndex,
        node: NodeId,
        ask: &Ask,
        mark: Mark,
    ) -> Option<Page> {
        let policy = &self.policy;
        if policy.tests_every_request() && !zones.zone(node).admits(ask, mark) {
            return None;
        }
        if let Some(list) = policy.list(ask.order, listed_type(ask.migratetype))
            && let Some(mut locked) = self.at(zones, slot, node).try_lock()
        {
            policy.before_alloc(&mut locked.lists.tuning);
            if let Some(page) = locked.pop(list, ask.order) {
                return Some(page);
            }
            if let Some(page) = locked.refill_and_pop(policy, list, ask, mark) {
                return Some(page);
            }
        }
        self.alloc_at_zone(zones, slot, node, ask, mark)
    }

    #[cold]
    fn alloc_at_zone(
        &self,
        zones: &Zones,
        slot: SlotIndex,
        node: NodeId,
        ask: &Ask,
        mark: Mark,
    ) -> Option<Page> {
        let mut page = [Page { pfn: Pfn::NONE, zeroed: false }];
        (self.bulk_at_zone(zones, slot, node, ask, mark, &mut page) == 1).then_some(page[0])
    }

    fn bulk_at_zone(
        &self,
        zones: &Zones,
        slot: SlotIndex,
        node: NodeId,
        ask: &Ask,
        mark: Mark,
        out: &mut [Page],
    ) -> usize {
        if !zones.zone(node).watermark_ok(ask.order, mark, ask.flags) {
            return 0;
        }
        let mut filled = 0;
        let count = out.len() as u32;
        zones.take(node, ask, count, Destination::User, |pfn, zeroed| {
            out[filled] = Page { pfn, zeroed };
            filled += 1;
        });
        self.store.pcp(slot, node).bypass_alloc(filled as u64);
        filled
    }

    /// Takes up to `out.len()` blocks of a node in one hold of the lists' lock. If that is not
    /// possible, takes them in one critical section of the zone.
    pub(super) fn alloc_bulk(
        &self,
        zones: &Zones,
        slot: SlotIndex,
        node: NodeId,
        ask: &Ask,
        out: &mut [Page],
    ) -> usize {
        let policy = &self.policy;
        let Some(list) = policy.list(ask.order, listed_type(ask.migratetype)) else {
            return self.bulk_at_zone(zones, slot, node, ask, Mark::Low, out);
        };
        if policy.tests_every_request() && !zones.zone(node).admits(ask, Mark::Low) {
            return 0;
        }
        let Some(mut locked) = self.at(zones, slot, node).try_lock() else {
            return self.bulk_at_zone(zones, slot, node, ask, Mark::Low, out);
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

    #[inline]
    pub(super) fn free(
        &self,
        zones: &Zones,
        slot: SlotIndex,
        (node, of): (NodeId, MigrateType),
        block: Block,
    ) {
        let policy = &self.policy;
        if let Some(list) = policy.list(block.order, listed_type(of))
            && let Some(mut locked) = self.at(zones, slot, node).try_lock()
        {
            locked.lists.counters.critical_sections += 1;
            let drain = locked.push(policy, list, block, End::Head);
            if drain > 0 {
                locked.drain(policy, drain, list);
            }
            return;
        }
        let Block { pfn, order, zeroed } = block;
        self.free_past_lists(zones, (slot, node), (&[(pfn, order)], zeroed), None);
    }

    #[cold]
    pub(super) fn free_at_zone(
        &self,
        zones: &Zones,
        slot: SlotIndex,
        node: NodeId,
        next: &mut dyn FnMut() -> Option<Block>,
    ) {
        let count = zones.put_all(node, next);
        self.store.pcp(slot, node).bypass_free(count);
    }

    /// Frees the blocks of one node among the checked `pages` in one hold of the lists' lock, and
    /// those without a list in one critical section of the zone. All go to the zone if another
    /// thread has the lock, or if the running task reclaims: a reclaim counts only frames in the
    /// zone as freed.
    pub(super) fn free_section(
        &self,
        zones: &Zones,
        at: (SlotIndex, NodeId),
        pages: &[(Pfn, Order)],
        (zeroed, end): (bool, End),
    ) {
        if zones.budget().reclaimers().is_in() {
            return self.free_past_lists(zones, at, (pages, zeroed), None);
        }
        let ((slot, node), policy) = (at, &self.policy);
        let Some(mut locked) = self.at(zones, slot, node).try_lock() else {
            return self.free_past_lists(zones, at, (pages, zeroed), None);
        };
        locked.lists.counters.critical_sections += 1;
        let (mut rest, mut unlisted) = (pages, false);
        while let Some((&(pfn, order), behind)) = rest.split_first() {
            rest = behind;
            let tag = zones.memory().pageblocks().of(pfn).tag();
            if tag.node() != Some(node) {
                continue;
            }
            let Some(list) = policy.list(order, listed_type(tag.migratetype())) else {
                unlisted = true;
                continue;
            };
            let drain = locked.push(policy, list, Block { pfn, order, zeroed }, end);
            if drain > 0 {
                match locked.drain(policy, drain, list) {
                    Some(again) => locked = again,
                    None => {
                        self.free_past_lists(zones, at, (rest, zeroed), Some(true));
                        unlisted = true;
                        break;
                    }
                }
            }
        }
        if unlisted {
            self.free_past_lists(zones, at, (pages, zeroed), Some(false));
        }
    }

    /// Frees blocks of the node among `pages` to the zone: all of them, only those that have a list
    /// (`Some(true)`), or only those without one.
    #[cold]
    #[inline(never)]
    fn free_past_lists(
        &self,
        zones: &Zones,
        (slot, node): (SlotIndex, NodeId),
        (pages, zeroed): (&[(Pfn, Order)], bool),
        listed: Option<bool>,
    ) {
        let is_meant = |&&(pfn, order): &&(Pfn, Order)| {
            let tag = zones.memory().pageblocks().of(pfn).tag();
            let has_list = || self.policy.list(order, listed_type(tag.migratetype())).is_some();
            tag.node() == Some(node) && listed.is_none_or(|listed| listed == has_list())
        };
        if pages.iter().any(|page| is_meant(&page)) {
            let block = |&(pfn, order): &(Pfn, Order)| Block { pfn, order, zeroed };
            let mut blocks = pages.iter().filter(is_meant).map(block);
            self.free_at_zone(zones, slot, node, &mut || blocks.next());
        }
    }

    pub(super) fn drain_slot(&self, zones: &Zones, slot: SlotIndex) {
        for node in self.store.nodes() {
            let mut locked = self.at(zones, slot, node).lock();
            while locked.lists.tuning.count > 0 {
                locked.drain_chunk(&self.policy, u32::MAX, 0);
            }
        }
    }

    /// Lets the policy lower `high`, and drains the pages above it. Returns whether another call
    /// may find something to do.
    pub(super) fn decay(&self, zones: &Zones, slot: SlotIndex) -> bool {
        let mut remains = false;
        for node in self.store.nodes() {
            let mut locked = self.at(zones, slot, node).lock();
            let sizes = locked.at.context().sizes;
            let excess = self.policy.decay(&mut locked.lists.tuning, sizes);
            remains |= locked.lists.tuning.high > sizes.high_min || excess > 0;
            if excess > 0 {
                locked.drain(&self.policy, excess, 0);
            }
        }
        remains
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        let lists = &self.store.pcps;
        (0..lists.len()).for_each(|index| lists.at(index).visit_locks(visit));
    }

    /// Checks the lists of one node against counts and states; returns the number of listed pages.
    pub(super) fn validate(&self, zones: &Zones, node: NodeId) -> Result<u32, Broken> {
        let memory = zones.memory();
        let mut pages = 0;
        for slot in self.store.slots() {
            let lists = self.store.pcp(slot, node).lists.lock();
            let rings = self.store.rings.at(self.store.index(slot, node));
            let mut count = 0;
            for (list, order) in self.policy.orders().iter().enumerate() {
                let order = Order::new(*order);
                for position in 0..lists.rings[list].len() {
                    let pfn = rings.peek(list, lists.rings[list], position);
                    let (state, listed) = (memory.frames().state(pfn), Check::of("pcp").at(pfn.0));
                    let owner = memory.pageblocks().of(pfn).tag().node();
                    listed.that(state.is_in_pcp(), "state of a listed block = in_pcp")?;
                    listed.that(state.order() == order, "order of a listed block = its list's")?;
                    listed.that(owner == Some(node), "node of a listed block = its list's")?;
                    count += order.frames();
                }
            }
            let check = Check::of("pcp").at(slot.0);
            check.equal(lists.tuning.count, count, "count = pages on the lists of a slot")?;
            pages += count;
        }
        Ok(pages)
    }
}
