//! The lists of all slots and nodes under one policy: allocation, freeing, draining.

use super::Page;
use super::drain::Drain;
use super::lists::{Lists, Pcp, PcpCounters};
use super::order0::Order0;
use super::policy::{Policy, SizeInputs, Sizes, Surroundings};
use super::ring::{RingSizes, Rings, SlotRings};
use super::v6_7::V6_7;
use super::v2016::V2016;
use super::{PcpPolicy, Tuning};
use crate::frame::{
    Access, FrameState, FrameTable, MAX_NODES, MigrateType, NodeId, Order, OsArray, PCP_TYPES, Pfn,
};
use crate::zone::{Ask, Block, Destination, Mark, Zones};
use quarry_sys::lock::Guard;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;

/// The policy chosen at start-up.
enum Chosen {
    Order0(Order0),
    V2016(V2016),
    V6_7(V6_7),
}

/// Runs `$body` with `$policy` bound to the chosen policy, compiled once for each.
macro_rules! with_policy {
    ($set:expr, $policy:ident => $body:expr) => {
        match &$set.policy {
            Chosen::Order0($policy) => $body,
            Chosen::V2016($policy) => $body,
            Chosen::V6_7($policy) => $body,
        }
    };
}

/// The lists of all slots and nodes.
pub(super) struct PcpSet {
    policy: Chosen,
    sizes: [Sizes; MAX_NODES],
    pcps: OsArray<Pcp>,
    rings: Rings,
    slots: u32,
    nodes: u8,
}

/// The lists of one slot and node, locked, with what they work on.
pub(super) struct Held<'a> {
    guard: Guard<'a, Lists>,
    pcp: &'a Pcp,
    rings: SlotRings<'a>,
    near: Surroundings<'a>,
    zones: &'a Zones,
    node: NodeId,
}

/// The migratetype of the list that a block of this type goes to. The reserve has no list: its
/// blocks are kept with the movable ones, and find their way back through their pageblock.
#[inline]
pub(super) fn listed_type(of: MigrateType) -> MigrateType {
    if of.index() < PCP_TYPES { of } else { MigrateType::Movable }
}

impl PcpSet {
    /// Reserves lists for `slots` slots of every zone.
    pub(super) fn reserve(
        os: &'static dyn Os,
        policy: PcpPolicy,
        zones: &Zones,
        inputs: SizeInputs,
        slots: u32,
        ring_sizes: &RingSizes,
    ) -> OsResult<Self> {
        let policy = match policy {
            PcpPolicy::Order0 { batch, high } => {
                Chosen::Order0(Order0 { batch: batch.max(1), high })
            }
            PcpPolicy::V2016 => Chosen::V2016(V2016),
            PcpPolicy::V6_7 => Chosen::V6_7(V6_7),
        };
        let nodes = zones.all().count() as u8;
        let count = slots as usize * usize::from(nodes);
        let orders = match &policy {
            Chosen::Order0(_) => Order0::ORDERS,
            Chosen::V2016(_) => V2016::ORDERS,
            Chosen::V6_7(_) => V6_7::ORDERS,
        };
        let mut set = Self {
            policy,
            sizes: [Sizes::default(); MAX_NODES],
            pcps: OsArray::reserve(os, count, Access::Writable)?,
            rings: Rings::reserve(os, count, orders, ring_sizes)?,
            slots,
            nodes,
        };
        let sizes = with_policy!(set, policy => policy.sizes(inputs));
        set.sizes = [sizes; MAX_NODES];
        Ok(set)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = SlotIndex> {
        (0..self.slots).map(SlotIndex)
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        (0..self.nodes).map(NodeId)
    }

    #[inline]
    fn index(&self, slot: SlotIndex, node: NodeId) -> usize {
        slot.index() * usize::from(self.nodes) + usize::from(node.0)
    }

    #[inline]
    pub(super) fn pcp(&self, slot: SlotIndex, node: NodeId) -> &Pcp {
        self.pcps.at(self.index(slot, node))
    }

    /// The lists of all slots and nodes.
    pub(super) fn all(&self) -> impl Iterator<Item = &Pcp> {
        (0..self.pcps.len()).map(|index| self.pcps.at(index))
    }

    fn orders(&self) -> &'static [u8] {
        fn of<P: Policy>(_: &P) -> &'static [u8] {
            P::ORDERS
        }
        with_policy!(self, policy => of(policy))
    }

    /// The bounds of the lists of a node.
    pub(super) fn sizes(&self, node: NodeId) -> Sizes {
        self.sizes[usize::from(node.0)]
    }

    #[inline]
    fn hold<'a>(
        &'a self,
        zones: &'a Zones,
        slot: SlotIndex,
        node: NodeId,
        guard: Guard<'a, Lists>,
    ) -> Held<'a> {
        Held {
            guard,
            pcp: self.pcp(slot, node),
            rings: self.rings.at(self.index(slot, node)),
            near: Surroundings { sizes: self.sizes(node), zone: zones.zone(node) },
            zones,
            node,
        }
    }

    #[inline]
    fn try_hold<'a>(&'a self, zones: &'a Zones, slot: SlotIndex, node: NodeId) -> Option<Held<'a>> {
        let guard = self.pcp(slot, node).lists.try_lock()?;
        Some(self.hold(zones, slot, node, guard))
    }

    /// Takes one block of a node: from the list, from a refill, or from the zone; the latter two if
    /// the zone stays above `mark`.
    #[inline]
    pub(super) fn alloc(
        &self,
        zones: &Zones,
        slot: SlotIndex,
        node: NodeId,
        ask: &Ask,
        mark: Mark,
    ) -> Option<Page> {
        with_policy!(self, policy => {
            let list = policy.list(ask.order, listed_type(ask.migratetype));
            if let Some(list) = list
                && let Some(mut held) = self.try_hold(zones, slot, node)
            {
                policy.before_alloc(&mut held.guard.tuning);
                if let Some(page) = held.pop(list, ask.order) {
                    return Some(page);
                }
                if let Some(page) = held.refill_and_pop(policy, list, ask, mark) {
                    return Some(page);
                }
            }
        });
        self.alloc_at_zone(zones, slot, node, ask, mark)
    }

    /// Takes one block from the zone if that stays above `mark`.
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
        self.pcp(slot, node).bypass_alloc(filled as u64);
        filled
    }

    /// Takes up to `out.len()` blocks of a node in one hold of the lists, refilling them as often
    /// as needed; or straight from the zone, in one critical section, where there is no list.
    pub(super) fn alloc_bulk(
        &self,
        zones: &Zones,
        slot: SlotIndex,
        node: NodeId,
        ask: &Ask,
        out: &mut [Page],
    ) -> usize {
        with_policy!(self, policy => {
            let Some(list) = policy.list(ask.order, listed_type(ask.migratetype)) else {
                return self.bulk_at_zone(zones, slot, node, ask, Mark::Low, out);
            };
            let Some(mut held) = self.try_hold(zones, slot, node) else {
                return self.bulk_at_zone(zones, slot, node, ask, Mark::Low, out);
            };
            let mut filled = 0;
            while filled < out.len() {
                let page = held
                    .pop(list, ask.order)
                    .or_else(|| held.refill_and_pop(policy, list, ask, Mark::Low));
                let Some(page) = page else { break };
                out[filled] = page;
                filled += 1;
            }
            filled
        })
    }

    /// Frees one block that was checked.
    #[inline]
    pub(super) fn free(&self, zones: &Zones, slot: SlotIndex, node: NodeId, block: Block) {
        with_policy!(self, policy => {
            let of = zones.memory().pageblocks().of(block.pfn).migratetype();
            if let Some(list) = policy.list(block.order, listed_type(of))
                && let Some(mut held) = self.try_hold(zones, slot, node)
            {
                held.guard.counters.critical_sections += 1;
                let drain = held.push(policy, list, block);
                if drain > 0 {
                    held.drain(policy, drain, list);
                }
                return;
            }
        });
        self.free_at_zone(zones, slot, node, core::iter::once(block));
    }

    #[cold]
    fn free_at_zone(
        &self,
        zones: &Zones,
        slot: SlotIndex,
        node: NodeId,
        blocks: impl Iterator<Item = Block>,
    ) {
        let mut count = 0;
        zones.put(node, blocks.inspect(|_| count += 1));
        self.pcp(slot, node).bypass_free(count);
    }

    /// Frees blocks of one node that were checked, in one hold of the lists, and in one critical
    /// section of the zone for those that have no list.
    pub(super) fn free_section(
        &self,
        zones: &Zones,
        slot: SlotIndex,
        node: NodeId,
        blocks: impl Iterator<Item = Block> + Clone,
    ) {
        with_policy!(self, policy => {
            let list_of = |block: &Block| {
                let of = zones.memory().pageblocks().of(block.pfn).migratetype();
                policy.list(block.order, listed_type(of))
            };
            let mut listed = blocks.clone().filter(|block| list_of(block).is_some()).peekable();
            let mut held = listed.peek().and_then(|_| self.try_hold(zones, slot, node));
            if let Some(held) = &mut held {
                held.guard.counters.critical_sections += 1;
            }
            while let Some(mut section) = held.take() {
                let Some(block) = listed.next() else { break };
                let Some(list) = list_of(&block) else { continue };
                let drain = section.push(policy, list, block);
                held = if drain > 0 { section.drain(policy, drain, list) } else { Some(section) };
            }
            // What is left could not be listed: the lists are in somebody else's hands.
            if listed.peek().is_some() {
                self.free_at_zone(zones, slot, node, &mut listed);
            }
            let mut unlisted = blocks.filter(|block| list_of(block).is_none()).peekable();
            if unlisted.peek().is_some() {
                self.free_at_zone(zones, slot, node, unlisted);
            }
        });
    }

    /// Gives everything on the lists of a slot back to the zones. Waits for the lists.
    pub(super) fn drain_slot(&self, zones: &Zones, slot: SlotIndex) {
        for node in self.nodes() {
            let guard = self.pcp(slot, node).lists.lock();
            let mut held = self.hold(zones, slot, node, guard);
            with_policy!(self, policy => {
                while held.guard.tuning.count > 0 {
                    held.drain_chunk(policy, u32::MAX, 0);
                }
            });
        }
    }

    /// Lets the lists of a slot shrink after a while without use (`decay_pcp_high`). Returns whether
    /// work remains.
    pub(super) fn decay(&self, zones: &Zones, slot: SlotIndex) -> bool {
        let mut remains = false;
        for node in self.nodes() {
            let guard = self.pcp(slot, node).lists.lock();
            let mut held = self.hold(zones, slot, node, guard);
            with_policy!(self, policy => {
                let sizes = held.near.sizes;
                let excess = policy.decay(&mut held.guard.tuning, sizes);
                remains |= held.guard.tuning.high > sizes.high_min || excess > 0;
                if excess > 0 {
                    held.drain(policy, excess, 0);
                }
            });
        }
        remains
    }

    /// What the lists of a slot have done, all nodes together. Waits for the lists.
    pub(super) fn counters(&self, slot: SlotIndex) -> PcpCounters {
        let mut sum = PcpCounters::default();
        self.nodes().for_each(|node| sum += self.pcp(slot, node).counters());
        sum
    }

    /// The state of the tuning of one slot and node. Waits for the lists.
    pub(super) fn tuning(&self, slot: SlotIndex, node: NodeId) -> Tuning {
        self.pcp(slot, node).lists.lock().tuning
    }

    /// Bytes of address space for lists and rings.
    pub(super) fn bytes(&self) -> usize {
        self.pcps.len() * size_of::<Pcp>() + self.rings.bytes()
    }

    /// Checks the lists of one node against counts and states. Returns the pages listed.
    pub(super) fn validate(&self, zones: &Zones, node: NodeId) -> u32 {
        let memory = zones.memory();
        let mut pages = 0;
        for slot in self.slots() {
            let lists = self.pcp(slot, node).lists.lock();
            let rings = self.rings.at(self.index(slot, node));
            let mut count = 0;
            for (list, order) in self.orders().iter().enumerate() {
                let order = Order::new(*order);
                for position in 0..lists.rings[list].len() {
                    let pfn = rings.peek(list, lists.rings[list], position);
                    let state = memory.frames().state(pfn);
                    assert!(state.is_in_pcp(), "{pfn:?} is listed with state {state:?}");
                    assert_eq!(state.order(), order, "order of listed {pfn:?}");
                    assert_eq!(memory.pageblocks().of(pfn).tag().node(), Some(node), "{pfn:?}");
                    count += order.frames();
                }
            }
            assert_eq!(lists.tuning.count, count, "count = pages on the lists of {slot:?}");
            pages += count;
        }
        pages
    }
}

impl<'a> Held<'a> {
    fn frames(&self) -> &'a FrameTable {
        self.zones.memory().frames()
    }

    /// Takes the head of a list. A block with a wrong state leaves the list and the count, and the
    /// next one is tried.
    #[inline]
    fn pop(&mut self, list: usize, order: Order) -> Option<Page> {
        let frames = self.frames();
        let lists = &mut *self.guard;
        while let Some(pfn) = self.rings.pop_head(list, &mut lists.rings[list]) {
            lists.tuning.count -= order.frames();
            let state = frames.state(pfn);
            if state.is_in_pcp() && state.order() == order {
                frames.set_state(pfn, FrameState::USED);
                lists.counters.allocs += 1;
                return Some(Page { pfn, zeroed: state.is_zeroed() });
            }
            lists.counters.bad_blocks += 1;
        }
        None
    }

    /// Fetches blocks for an empty list in one critical section, appends them in the order in which
    /// they come, and takes the first. High-order atomic requests do not refill: they go to the zone
    /// and its reserve.
    #[cold]
    fn refill_and_pop<P: Policy>(
        &mut self,
        policy: &P,
        list: usize,
        ask: &Ask,
        mark: Mark,
    ) -> Option<Page> {
        let zone = self.near.zone;
        if ask.flags.high_atomic || !zone.watermark_ok(ask.order, mark, ask.flags) {
            return None;
        }
        if !zone.is_below_high() && !zone.can_grow() {
            zone.set_below_high(!zone.watermark_ok(ask.order, Mark::High, ask.flags));
        }
        let lists = &mut *self.guard;
        let wanted = policy.refill(&mut lists.tuning, self.near, ask.order);
        let (rings, ring) = (self.rings, &mut lists.rings[list]);
        let wanted = wanted.min(rings.room(list, *ring));
        let got = self.zones.take(self.node, ask, wanted, Destination::Pcp, |pfn, _| {
            rings.push_tail(list, ring, pfn);
        });
        lists.tuning.count += got << ask.order.get();
        lists.counters.refills += 1;
        lists.counters.refilled_blocks += u64::from(got);
        self.pop(list, ask.order)
    }

    /// Puts a block at the head of a list; returns the pages that the policy wants drained.
    #[inline]
    fn push<P: Policy>(&mut self, policy: &P, list: usize, block: Block) -> u32 {
        if self.rings.is_full(list, self.guard.rings[list]) {
            self.spill(list, block.order);
        }
        self.frames().set_state(block.pfn, FrameState::in_pcp(block.order, block.zeroed));
        let lists = &mut *self.guard;
        self.rings.push_head(list, &mut lists.rings[list], block.pfn);
        lists.tuning.count += block.order.frames();
        lists.counters.frees += 1;
        policy.after_free(&mut lists.tuning, self.near, block.order)
    }

    /// Gives the older half of a full list back to the zone.
    #[cold]
    fn spill(&mut self, list: usize, order: Order) {
        let (frames, node, rings) = (self.frames(), self.node, self.rings);
        let lists = &mut *self.guard;
        let spilled = lists.rings[list].len().div_ceil(2);
        let zones = self.zones;
        zones.put(
            node,
            (0..spilled).filter_map(|_| {
                let pfn = rings.pop_tail(list, &mut lists.rings[list])?;
                let state = frames.state(pfn);
                let good = state.is_in_pcp() && state.order() == order;
                lists.counters.bad_blocks += u64::from(!good);
                good.then_some(Block { pfn, order, zeroed: state.is_zeroed() })
            }),
        );
        lists.tuning.count -= spilled << order.get();
        lists.counters.drains += 1;
        lists.counters.drained_pages += u64::from(spilled << order.get());
    }

    /// Gives `pages` pages back, beginning with `list`, in chunks of the policy; the lists are
    /// released between chunks, and `None` says that somebody else took them then.
    fn drain<P: Policy>(mut self, policy: &P, mut pages: u32, list: usize) -> Option<Self> {
        let chunk = policy.drain_chunk(self.near.sizes);
        loop {
            let done = self.drain_chunk(policy, pages.min(chunk), list);
            pages = pages.saturating_sub(done);
            if pages == 0 || done == 0 {
                break;
            }
            let Self { guard, pcp, rings, near, zones, node } = self;
            drop(guard);
            self = Self { guard: pcp.lists.try_lock()?, pcp, rings, near, zones, node };
        }
        let zone = self.near.zone;
        if zone.is_below_high() && zone.watermark_ok(Order::ZERO, Mark::High, Default::default()) {
            zone.set_below_high(false);
        }
        Some(self)
    }

    /// Gives up to `pages` pages back in one critical section of the zone; returns how many left.
    fn drain_chunk<P: Policy>(&mut self, _policy: &P, pages: u32, list: usize) -> u32 {
        let before = self.guard.tuning.count;
        if before == 0 {
            return 0;
        }
        let (frames, rings) = (self.frames(), self.rings);
        let how = (P::ORDERS, P::WALK);
        self.zones.put(self.node, Drain::new(&mut self.guard, rings, frames, how, pages, list));
        let done = before - self.guard.tuning.count;
        self.guard.counters.drains += 1;
        self.guard.counters.drained_pages += u64::from(done);
        done
    }
}
