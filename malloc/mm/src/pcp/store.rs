//! The zones, and in front of them the lists of all slots and nodes, for every policy.

use super::config::PageConfig;
use super::extent_list::ExtentList;
use super::lists::Pcp;
use super::policy::{PagePolicy, Sizes};
use super::ring::{RingSizes, Rings};
use super::shelves::Shelves;
use crate::frame::{NodeId, Order, OsArray};
use crate::zone::Zones;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;

pub(super) struct ListStore {
    pub(super) zones: Zones,
    pub(super) sizes: Sizes,
    pub(super) pcps: OsArray<Pcp>,
    pub(super) rings: Rings,
    pub(super) lists_extents: bool,
    pub(super) shelves: Shelves,
    slots: u32,
    nodes: u8,
}

impl ListStore {
    /// Reserves the policy's lists for each pair of slot and node.
    pub(super) fn reserve<P: PagePolicy>(
        os: &'static dyn Os,
        config: &PageConfig<P>,
        zones: Zones,
        slots: u32,
        rings: &RingSizes,
    ) -> OsResult<Self> {
        let (policy, nodes) = (config.policy, config.nodes);
        let count = slots as usize * usize::from(nodes);
        Ok(Self {
            zones,
            sizes: policy.sizes(config.size_inputs()),
            pcps: OsArray::zeroed(os, count)?,
            rings: Rings::reserve(os, count, policy.orders(), rings)?,
            lists_extents: config.lists_extents,
            shelves: Shelves::reserve(os, slots, nodes)?,
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
        &self.pcp(slot, node).extents
    }

    /// Checks the lists of one node against counts and states; returns the number of listed pages.
    pub(super) fn validate_pages(&self, node: NodeId, orders: &[u8]) -> Result<u32, Broken> {
        let memory = self.zones.memory();
        let mut pages = 0;
        for slot in self.slots() {
            let lists = self.pcp(slot, node).lists.lock();
            let rings = self.rings.at(self.index(slot, node));
            let mut count = 0;
            for (list, order) in orders.iter().enumerate() {
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
