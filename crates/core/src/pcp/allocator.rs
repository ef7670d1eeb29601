//! The page allocator: zones and the per-CPU lists in front of them.

use super::{Page, PageConfig, PageRequest};
use crate::frame::{Arena, FrameTable, MigrateType, NodeId, Order, PageblockTag, Pfn};
use crate::zone::{Block, Destination, ZoneConfig, Zones};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;
use quarry_sys::report::fatal;

/// Zones and the per-CPU lists in front of them.
pub struct PageAllocator {
    zones: Zones,
    node_of_slot: fn(SlotIndex) -> NodeId,
}

impl PageAllocator {
    /// Reserves the arena and sets up zones and `slots` per-CPU lists.
    ///
    /// # Errors
    /// What the OS says.
    pub fn build(os: &'static dyn Os, config: &PageConfig, slots: u32) -> OsResult<Self> {
        let _ = slots;
        let zones = ZoneConfig {
            reserve_bytes: config.reserve_bytes,
            limit_frames: config.limit_frames,
            initial_frames: config.initial_frames,
            grow: config.grow,
            nodes: config.nodes,
        };
        Ok(Self { zones: Zones::build(os, &zones)?, node_of_slot: config.node_of_slot })
    }

    /// What is recorded of each frame.
    #[inline]
    pub fn frames(&self) -> &FrameTable {
        self.zones.memory().frames()
    }

    /// The reservation.
    #[inline]
    pub fn arena(&self) -> &Arena {
        self.zones.memory().arena()
    }

    /// The zones.
    #[inline]
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// Charges `frames` frames of a mapping; `false` where they do not fit into the limit.
    #[must_use]
    pub fn charge(&self, frames: u32) -> bool {
        self.zones.budget().charge_mapping(frames)
    }

    /// Takes `frames` frames of a mapping out of the account.
    pub fn uncharge(&self, frames: u32) {
        self.zones.budget().uncharge_mapping(frames);
    }

    /// Checks every equation of zones, lists and budget. O(frames); nobody else may be at work.
    ///
    /// # Panics
    /// With the equation that does not hold.
    pub fn validate(&self) {
        let mut outside = 0;
        for zone in self.zones.all() {
            zone.validate(self.zones.memory());
            outside += zone.managed() - zone.free();
        }
        let budget = self.zones.budget();
        assert_eq!(budget.used(), outside + budget.mapped(), "used = outside the zones + mapped");
    }

    /// Takes a block.
    pub fn alloc(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        let mut page = [Page { pfn: Pfn::NONE, zeroed: false }];
        (self.alloc_bulk(slot, request, &mut page) == 1).then_some(page[0])
    }

    /// Gives a block back.
    pub fn free(&self, slot: SlotIndex, pfn: Pfn, order: Order) {
        self.free_list(slot, &[(pfn, order)]);
    }

    /// Takes up to `out.len()` blocks; returns how many were written to the front of `out`.
    pub fn alloc_bulk(&self, slot: SlotIndex, request: PageRequest, out: &mut [Page]) -> usize {
        let _ = slot;
        let PageRequest { order, migratetype, node, .. } = request;
        let mut filled = 0;
        self.zones.take(
            node,
            order,
            migratetype,
            out.len() as u32,
            Destination::User,
            |pfn, zeroed| {
                out[filled] = Page { pfn, zeroed };
                filled += 1;
            },
        );
        filled
    }

    /// Gives a list of blocks back, as the free-list policy says.
    pub fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]) {
        let _ = slot;
        for &(pfn, order) in pages {
            let tag = self.check_freed(pfn, order);
            let Some(node) = tag.node() else { continue };
            self.zones.put(node, core::iter::once(Block { pfn, order, zeroed: false }));
        }
    }

    /// Takes exactly `count` frames (1..=1024): a block, trimmed, the rest given back at once.
    pub fn alloc_exact(
        &self,
        slot: SlotIndex,
        count: u32,
        migratetype: MigrateType,
        align: Order,
    ) -> Option<Page> {
        let order = Order::covering(count).max(align);
        let node = (self.node_of_slot)(slot);
        let request = PageRequest { order, migratetype, flags: Default::default(), node };
        let page = self.alloc(slot, request)?;
        self.free_exact(slot, page.pfn.plus(count), order.frames() - count);
        Some(page)
    }

    /// Gives back `count` frames from `first` on, in the largest blocks that they form.
    pub fn free_exact(&self, slot: SlotIndex, first: Pfn, count: u32) {
        let (mut pfn, end) = (first, first.plus(count));
        while pfn < end {
            let fits = (end.0 - pfn.0).ilog2().min(pfn.0.trailing_zeros());
            let order = Order::new(fits.min(u32::from(crate::frame::MAX_ORDER)) as u8);
            self.free(slot, pfn, order);
            pfn = pfn.plus(order.frames());
        }
    }

    /// Checks that a block may be freed; aborts the process where it may not.
    #[inline]
    fn check_freed(&self, pfn: Pfn, order: Order) -> PageblockTag {
        let memory = self.zones.memory();
        let tag = memory.pageblocks().of(pfn).tag();
        if memory.frames().state(pfn).is_free() || tag.node().is_none() || !pfn.is_aligned(order) {
            fatal(format_args!(
                "free of {pfn:?}, order {}: {}",
                order.get(),
                if memory.frames().state(pfn).is_free() {
                    "it is free already"
                } else if tag.node().is_none() {
                    "it belongs to no zone"
                } else {
                    "no block of this order starts there"
                }
            ));
        }
        tag
    }
}
