//! The lists of extents, for requests and frees that come outside the gate, and what they hold.

use super::allocator::PageAllocator;
use super::extent_list::Movement;
use super::policy::PagePolicy;
use crate::frame::{NodeId, Order, Pfn};
use crate::zone::EXTENT_FRAMES;
use quarry_sys::percpu::SlotIndex;

impl<P: PagePolicy> PageAllocator<P> {
    /// Takes `count` frames (a number in [`EXTENT_FRAMES`]), which may hold data, from the list of
    /// the slot and its node. May be called outside the gate. O(1), no lock.
    #[inline]
    pub fn alloc_listed(&self, slot: SlotIndex, count: u32) -> Option<Pfn> {
        if !EXTENT_FRAMES.contains(&count) {
            return None;
        }
        let node = self.zones().node_of(slot);
        self.store.take_listed((slot, node), (count, Order::ZERO), Movement::TakenOutside)
    }

    /// Puts an extent on the slot's list; false if the list is full, the pageblock not movable, or
    /// the size not in [`EXTENT_FRAMES`]. May be called outside the gate. O(1), no lock.
    #[inline]
    pub fn free_listed(&self, slot: SlotIndex, first: Pfn, count: u32) -> bool {
        let Some(node) = self.extent_node(first, count) else { return false };
        let (store, extent) = (&self.store, (first, count));
        EXTENT_FRAMES.contains(&count)
            && store.put_listed((slot, node), extent, Movement::PutOutside)
    }

    /// Numbers of extents that were taken from the lists, and put on them, outside the gate.
    #[must_use]
    pub(crate) fn extents_passed_outside(&self) -> (u64, u64) {
        let passed = |how| self.store.extent_lists().map(|list| list.passed(how)).sum();
        (passed(Movement::TakenOutside), passed(Movement::PutOutside))
    }

    /// Frames on the lists and the shelf of a slot and node: pages and extents. Waits for the lock
    /// of the page lists.
    #[must_use]
    pub fn listed_frames(&self, slot: SlotIndex, node: NodeId) -> u32 {
        let extents = self.store.extents(slot, node).frames();
        let shelved = self.store.shelves.frames(slot, node);
        self.pcp_tuning(slot, node).count + extents + shelved
    }

    #[must_use]
    pub(crate) fn lists_any_extent(&self) -> bool {
        self.store.shelves.any() || self.store.extent_lists().any(|list| list.frames() > 0)
    }
}
