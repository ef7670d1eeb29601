//! The lists of all slots and nodes, and their bounds, for every policy.

use super::extent_list::{ExtentList, Movement};
use super::lists::{Pcp, PcpCounters, Tuning};
use super::policy::Sizes;
use super::ring::{RingSizes, Rings};
use crate::frame::{NodeId, OsArray};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;

pub(super) struct ListStore {
    pub(super) sizes: Sizes,
    pub(super) pcps: OsArray<Pcp>,
    pub(super) rings: Rings,
    pub(super) extents: OsArray<ExtentList>,
    pub(super) lists_extents: bool,
    slots: u32,
    nodes: u8,
}

impl ListStore {
    /// Reserves, for each pair of slot and node, one list per entry of `orders`.
    pub(super) fn reserve(
        os: &'static dyn Os,
        (slots, nodes): (u32, u8),
        sizes: Sizes,
        orders: &'static [u8],
        rings: &RingSizes,
        lists_extents: bool,
    ) -> OsResult<Self> {
        let count = slots as usize * usize::from(nodes);
        Ok(Self {
            sizes,
            pcps: OsArray::zeroed(os, count)?,
            rings: Rings::reserve(os, count, orders, rings)?,
            extents: OsArray::zeroed(os, count)?,
            lists_extents,
            slots,
            nodes,
        })
    }

    pub(super) fn slots(&self) -> impl ExactSizeIterator<Item = SlotIndex> {
        (0..self.slots).map(SlotIndex)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        (0..self.nodes).map(NodeId)
    }

    #[inline(always)]
    pub(super) fn index(&self, slot: SlotIndex, node: NodeId) -> usize {
        slot.index() * usize::from(self.nodes) + usize::from(node.0)
    }

    #[inline(always)]
    pub(super) fn pcp(&self, slot: SlotIndex, node: NodeId) -> &Pcp {
        self.pcps.at(self.index(slot, node))
    }

    #[inline(always)]
    pub(super) fn extents(&self, slot: SlotIndex, node: NodeId) -> &ExtentList {
        self.extents.at(self.index(slot, node))
    }

    /// The counts of a slot's lists, all nodes together. Waits for the locks of the lists.
    pub(super) fn counters(&self, slot: SlotIndex) -> PcpCounters {
        let mut sum = PcpCounters::default();
        for node in self.nodes() {
            sum += self.pcp(slot, node).counters();
            let extents = self.extents(slot, node);
            sum.allocs += extents.passed(Movement::Taken) + extents.passed(Movement::TakenOutside);
            sum.frees += extents.passed(Movement::Put) + extents.passed(Movement::PutOutside);
        }
        sum
    }

    /// Waits for the lock of the lists.
    pub(super) fn tuning(&self, slot: SlotIndex, node: NodeId) -> Tuning {
        self.pcp(slot, node).lists.lock().tuning
    }
}
