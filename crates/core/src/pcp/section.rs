//! Many blocks in one critical section: lists of pages (document 001), and requests for an exact
//! number of frames.

use super::allocator::PageAllocator;
use super::v2016::COSTLY_ORDER;
use super::{AllocFlags, FreeListPolicy, Page, PageRequest};
use crate::frame::{FrameState, MAX_ORDER, MigrateType, NodeId, Order, Pfn};
use crate::zone::{Block, largest_blocks};
use quarry_sys::percpu::SlotIndex;

impl PageAllocator {
    /// Gives a list of blocks back. Under `PerPage` each block has a critical section of its own.
    /// Under `OneSection` a first pass checks all of them, and a second one frees them in one
    /// critical section per node (and one of the zone for orders that are not listed).
    ///
    /// Aborts the process where a block is free already, also by an earlier entry of the list.
    pub fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]) {
        match self.free_list {
            FreeListPolicy::PerPage => {
                pages.iter().for_each(|(pfn, order)| self.free(slot, *pfn, *order));
            }
            FreeListPolicy::OneSection => {
                let mut nodes = 0u32;
                for (pfn, order) in pages {
                    nodes |= 1 << self.prepare_free(*pfn, *order).0;
                }
                let blocks = pages.iter().map(|(pfn, order)| Block {
                    pfn: *pfn,
                    order: *order,
                    zeroed: false,
                });
                self.free_prepared(slot, nodes, blocks);
            }
        }
    }

    /// Takes exactly `count` frames (1..=1024) whose first one is aligned to `align`: a block,
    /// trimmed, the rest given back at once in one critical section.
    ///
    /// # Panics
    /// Where `count` is 0 or above 1,024.
    pub fn alloc_exact(
        &self,
        slot: SlotIndex,
        count: u32,
        migratetype: MigrateType,
        align: Order,
    ) -> Option<Page> {
        assert!((1..=1 << MAX_ORDER).contains(&count), "1..=1024 frames, not {count}");
        let order = Order::covering(count).max(align);
        let node = (self.node_of_slot)(slot);
        let flags = AllocFlags::default();
        let page = self.alloc(slot, PageRequest { order, migratetype, flags, node })?;
        let rest = largest_blocks(page.pfn.plus(count), order.frames() - count)
            .map(|(pfn, order)| Block { pfn, order, zeroed: page.zeroed });
        let home = self.zones.memory().pageblocks().of(page.pfn).tag().node();
        if let Some(node) = home.filter(|_| count < order.frames()) {
            self.free_pieces(slot, node, order, rest);
        }
        Some(page)
    }

    /// Gives back `count` frames from `first` on, in the largest blocks that they form, in one
    /// critical section.
    ///
    /// Aborts the process where a block of them is free already.
    pub fn free_exact(&self, slot: SlotIndex, first: Pfn, count: u32) {
        if count.is_power_of_two() && count <= 1 << MAX_ORDER && first.0.is_multiple_of(count) {
            return self.free(slot, first, Order::covering(count));
        }
        let Some(last) = count.checked_sub(1) else { return };
        let node = self.zones.memory().pageblocks().of(first).tag().node();
        assert_eq!(
            self.zones.memory().pageblocks().of(first.plus(last)).tag().node(),
            node,
            "the frames belong to one zone"
        );
        for (pfn, order) in largest_blocks(first, count) {
            self.prepare_free(pfn, order);
        }
        let blocks =
            largest_blocks(first, count).map(|(pfn, order)| Block { pfn, order, zeroed: false });
        if let Some(node) = node {
            self.free_pieces(slot, node, Order::covering(count.min(1 << MAX_ORDER)), blocks);
        }
    }

    /// Frees the pieces of one block of `order` in one critical section. Where the whole would not
    /// have been listed its pieces are not either: on lists they would keep their buddies from
    /// merging, only to be drained soon.
    fn free_pieces(
        &self,
        slot: SlotIndex,
        node: NodeId,
        order: Order,
        pieces: impl Iterator<Item = Block> + Clone,
    ) {
        if order.get() > COSTLY_ORDER {
            self.pcps.free_at_zone(&self.zones, slot, node, pieces);
        } else {
            self.pcps.free_section(&self.zones, slot, node, pieces);
        }
    }

    /// The first pass: checks a block and marks it, so that a second entry for it is found out.
    fn prepare_free(&self, pfn: Pfn, order: Order) -> NodeId {
        let (node, _) = self.check_freed(pfn, order);
        self.frames().set_state(pfn, FrameState::in_pcp(order, false));
        node
    }

    /// The second pass: frees prepared blocks of the nodes in the bit set `nodes`.
    fn free_prepared(
        &self,
        slot: SlotIndex,
        nodes: u32,
        blocks: impl Iterator<Item = Block> + Clone,
    ) {
        if nodes.is_power_of_two() {
            let node = NodeId(nodes.trailing_zeros() as u8);
            return self.pcps.free_section(&self.zones, slot, node, blocks);
        }
        let pageblocks = self.zones.memory().pageblocks();
        for node in (0..u32::BITS as u8).filter(|node| nodes >> node & 1 == 1).map(NodeId) {
            let local =
                blocks.clone().filter(|block| pageblocks.of(block.pfn).tag().node() == Some(node));
            self.pcps.free_section(&self.zones, slot, node, local);
        }
    }
}
