//! The page allocator: zones and the per-CPU lists in front of them.
//!
//! Invariants, while no thread is at work:
//! * `budget.used + exempt = sum over zones of (managed - free) + mapped + claimed`
//! * frames of blocks with the state `in_pcp` = pages on the lists of all slots, without extents

use super::config::{FreeListPolicy, PageConfig};
use super::extent_list::Movement;
use super::lists::{PcpCounters, Tuning};
use super::locked_lists::ListRef;
use super::policy::{BATCH_SCALE_MAX, PagePolicy, Sizes};
use super::ring::RingSizes;
use super::store::ListStore;
use crate::frame::{
    Arena, FrameTable, MAX_ORDER, Memory, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, Pfn,
};
use crate::zone::{ZoneConfig, Zones};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;
use quarry_sys::report::fatal;

/// Zones and the per-CPU lists in front of them.
pub struct PageAllocator<P> {
    pub(super) policy: P,
    pub(super) store: ListStore,
    pub(super) free_list: FreeListPolicy,
}

impl<P: PagePolicy> PageAllocator<P> {
    /// Reserves the arena, and sets up zones and the lists of `slots` CPUs. Two nodes are as far
    /// apart as their numbers. Fails if the OS refuses.
    pub fn build(os: &'static dyn Os, config: &PageConfig<P>, slots: u32) -> OsResult<Self> {
        let Sizes { high_max, batch, .. } = config.policy.sizes(config.size_inputs());
        let rings = RingSizes::fitting(high_max, batch << BATCH_SCALE_MAX);
        let in_line = |one: NodeId, other: NodeId| u32::from(one.0.abs_diff(other.0));
        Self::build_with(os, config, slots, in_line, &rings)
    }

    /// Same as [`build`](Self::build), with the distances of nodes and the capacities of the lists.
    pub fn build_with(
        os: &'static dyn Os,
        config: &PageConfig<P>,
        slots: u32,
        distance: fn(NodeId, NodeId) -> u32,
        rings: &RingSizes,
    ) -> OsResult<Self> {
        let zone_config = ZoneConfig {
            reserve_bytes: config.reserve_bytes,
            limit_frames: config.limit_frames,
            initial_frames: config.initial_frames,
            grow: config.grow,
            huge: config.faults.huge,
            populate: config.faults.populate,
            nodes: config.nodes,
            node_of_slot: config.node_of_slot,
            distance,
        };
        let zones = Zones::build(os, &zone_config)?;
        Ok(Self {
            policy: config.policy,
            store: ListStore::reserve(os, config, zones, slots, rings)?,
            free_list: config.free_list,
        })
    }

    /// The descriptors of frames.
    #[inline]
    pub fn frames(&self) -> &FrameTable {
        self.memory().frames()
    }

    /// The window with the descriptors of its frames.
    #[inline]
    pub fn memory(&self) -> &Memory {
        self.zones().memory()
    }

    /// The pageblocks of the window.
    #[inline]
    pub fn arena(&self) -> &Arena {
        self.memory().arena()
    }

    /// The zones.
    #[inline]
    pub fn zones(&self) -> &Zones {
        &self.store.zones
    }

    /// Holds the lock of the lists of a slot and node until the result is dropped. For tests.
    pub fn hold_lists(&self, slot: SlotIndex, node: NodeId) -> impl Sized + '_ {
        self.store.pcp(slot, node).lists.lock()
    }

    /// Returns node and migratetype of a block to be freed; aborts the process if it is not in use.
    #[inline]
    pub(super) fn check_freed(&self, pfn: Pfn, order: Order) -> (NodeId, MigrateType) {
        let memory = self.memory();
        let tag = memory.pageblocks().of(pfn).tag();
        let state = memory.frames().state(pfn);
        match tag.node() {
            Some(node)
                if !state.is_free()
                    && pfn.is_aligned(order)
                    && !(cfg!(debug_assertions) && self.is_inside_free(pfn)) =>
            {
                (node, tag.migratetype())
            }
            _ => self.refuse_free(pfn, order),
        }
    }

    /// The node of the frames, if they lie in one movable pageblock and so may become an extent.
    #[inline]
    pub(super) fn extent_node(&self, first: Pfn, count: u32) -> Option<NodeId> {
        let tag = self.memory().pageblocks().of(first).tag();
        let is_inside = first.0 % PAGEBLOCK_FRAMES + count <= PAGEBLOCK_FRAMES;
        (is_inside && tag.migratetype() == MigrateType::Movable).then_some(tag.node()).flatten()
    }

    /// Returns whether this frame is part of an extent, or of a free block that begins before it.
    fn is_inside_free(&self, pfn: Pfn) -> bool {
        let kept = self.memory().pageblocks().of(pfn).extents();
        if kept.count_in(pfn.0 % PAGEBLOCK_FRAMES, 1) == 1 {
            return true;
        }
        (1..=MAX_ORDER).map(Order::new).any(|order| {
            let head = pfn.align_down(order);
            let state = self.frames().state(head);
            head != pfn && state.is_free() && state.order() >= order
        })
    }

    #[cold]
    #[inline(never)]
    pub(super) fn refuse_free(&self, pfn: Pfn, order: Order) -> ! {
        let address = self.arena().address(pfn);
        let order = order.get();
        let why = if self.memory().pageblocks().of(pfn).tag().node().is_none() {
            "it belongs to no zone"
        } else if !pfn.is_aligned(Order::new(order)) {
            "no block of this order starts there"
        } else {
            "it is free already"
        };
        fatal(format_args!("free of the page block of order {order} at {address:p}: {why}"))
    }

    #[inline(always)]
    pub(super) fn lists(&self, slot: SlotIndex, node: NodeId) -> ListRef<'_> {
        ListRef { store: &self.store, index: self.store.index(slot, node), node }
    }

    /// Gives everything on the per-CPU lists back to the zones.
    pub fn drain_all(&self) {
        self.store.slots().for_each(|slot| self.drain_slot(slot));
    }

    /// Gives everything on the lists of one slot back to the zones.
    pub fn drain_slot(&self, slot: SlotIndex) {
        for node in self.store.nodes() {
            let mut locked = self.lists(slot, node).lock();
            while locked.lists.tuning.count > 0 {
                locked.drain_chunk(&self.policy, u32::MAX, 0);
            }
        }
        self.store.drain_extents_of(slot);
    }

    /// Gives unused pages and extents of a slot's lists to the zones (`decay_pcp_high`). Returns
    /// whether another call may give more.
    pub fn decay(&self, slot: SlotIndex) -> bool {
        let mut remains = self.store.age_extents_of(slot);
        for node in self.store.nodes() {
            let mut locked = self.lists(slot, node).lock();
            let sizes = self.store.sizes;
            let excess = self.policy.decay(&mut locked.lists.tuning, sizes);
            remains |= locked.lists.tuning.high > sizes.high_min || excess > 0;
            if excess > 0 {
                locked.drain(&self.policy, excess, 0);
            }
        }
        remains
    }

    /// The counts of a slot's lists, all nodes together. Waits for the locks of the lists.
    #[must_use]
    pub fn pcp_counters(&self, slot: SlotIndex) -> PcpCounters {
        let mut sum = PcpCounters::default();
        for node in self.store.nodes() {
            sum += self.store.pcp(slot, node).counters();
            let extents = self.store.extents(slot, node);
            sum.allocs += extents.passed(Movement::Taken) + extents.passed(Movement::TakenOutside);
            sum.frees += extents.passed(Movement::Put) + extents.passed(Movement::PutOutside);
        }
        sum
    }

    /// The counts of the lists of all slots.
    #[must_use]
    pub fn pcp_totals(&self) -> PcpCounters {
        let mut sum = PcpCounters::default();
        self.store.slots().for_each(|slot| sum += self.pcp_counters(slot));
        sum
    }

    /// The present tuning of the lists of one slot and node. Waits for the lock of the lists.
    #[must_use]
    pub fn pcp_tuning(&self, slot: SlotIndex, node: NodeId) -> Tuning {
        self.store.pcp(slot, node).lists.lock().tuning
    }

    /// The policy of the lists.
    #[must_use]
    pub fn policy(&self) -> P {
        self.policy
    }

    #[must_use]
    pub(crate) fn pcp_batch(&self) -> u32 {
        self.store.sizes.batch
    }

    /// Visits the locks of zones, arena and lists.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.zones().visit_locks(visit);
        self.store.shelves.visit_locks(visit);
        let lists = &self.store.pcps;
        (0..lists.len()).for_each(|index| lists.at(index).visit_locks(visit));
    }

    /// Checks all equations while no other thread works; returns the first broken one. O(frames).
    pub fn validate(&self) -> Result<(), Broken> {
        self.zones().validate()?;
        self.store.shelves.validate(self.zones())?;
        let mut outside = 0;
        for zone in self.zones().all() {
            let listed = self.store.validate_pages(zone.node(), self.policy.orders())?;
            let in_pcp = self.zones().frames_in_pcp(zone.node());
            Check::of("pcp").equal(in_pcp, listed, "frames in_pcp by state = pages listed")?;
            self.store.validate_extents(zone.node())?;
            outside += zone.managed() - zone.free();
        }
        let (budget, check) = (self.zones().budget(), Check::of("budget"));
        let sum = outside + budget.mapped() + budget.claimed();
        let used = budget.used() + budget.exempted();
        check.equal(used, sum, "used + exempt = outside the zones + mapped + claimed")
    }
}
