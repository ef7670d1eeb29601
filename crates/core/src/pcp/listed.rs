//! Extents on the lists of CPUs: how they get there, and how they come back.
//!
//! A CPU keeps what it has freed within a share of what is in use, so that a process is hardly
//! larger for it; one extent it keeps in any case. Where memory is short it keeps nothing.

use super::allocator::PageAllocator;
use super::extent_list::{ExtentList, Leaving, Passed};
use crate::frame::{NodeId, Order, PAGEBLOCK_FRAMES, Pfn};
use crate::zone::{EXTENT_FRAMES, Mark};
use quarry_sys::broken::Broken;
use quarry_sys::percpu::SlotIndex;

/// A list may have this part of what is in use,
const SHARE: u32 = 8;
/// but no more than 1 MiB of it;
const SMALL_MOST: u32 = 256;
/// or the lists of all CPUs together this part,
const SHARE_OF_ALL: u32 = 32;
/// of which one has no more than 8 MiB.
const MOST: u32 = 2048;

impl PageAllocator {
    /// Frames that a list may have now.
    #[inline]
    fn most_listed(&self) -> u32 {
        let budget = self.zones.budget();
        if !self.lists_extents || budget.is_below(Mark::High) {
            return 0;
        }
        let (used, slots) = (budget.used(), self.pcps.store.slots().len() as u32);
        (used / SHARE).min(SMALL_MOST).max((used / (SHARE_OF_ALL * slots)).min(MOST))
    }

    /// Takes `count` frames ([`EXTENT_FRAMES`]) from the list of the slot and its node. O(1), no
    /// lock; may be called outside of the gate. The frames may hold data.
    #[inline]
    pub fn alloc_listed(&self, slot: SlotIndex, count: u32) -> Option<Pfn> {
        if !EXTENT_FRAMES.contains(&count) {
            return None;
        }
        let node = (self.node_of_slot)(slot);
        self.take_listed(slot, node, (count, Order::ZERO), Passed::TakenOutside)
    }

    /// Puts an extent ([`EXTENT_FRAMES`]) on the list of the slot; returns whether the list had
    /// room for it, and nothing is done where not. O(1), no lock; may be called outside of the
    /// gate.
    #[inline]
    pub fn free_listed(&self, slot: SlotIndex, first: Pfn, count: u32) -> bool {
        let Some(node) = self.extent_node(first, count) else { return false };
        EXTENT_FRAMES.contains(&count)
            && self.put_listed(slot, node, (first, count), Passed::PutOutside)
    }

    #[inline]
    pub(super) fn take_listed(
        &self,
        slot: SlotIndex,
        node: NodeId,
        (count, align): (u32, Order),
        how: Passed,
    ) -> Option<Pfn> {
        let list = self.pcps.store.extents(slot, node);
        let taken = list.take(count, align)?;
        list.note(how);
        Some(taken)
    }

    /// Takes the frames that an allocation wants to grow into, if the list has all of them; gives
    /// the zone what the list has, if it has some of them.
    pub(super) fn take_listed_at(
        &self,
        slot: SlotIndex,
        node: NodeId,
        first: Pfn,
        count: u32,
    ) -> bool {
        let list = self.pcps.store.extents(slot, node);
        if list.take_at(first, count) {
            list.note(Passed::Taken);
            return true;
        }
        if list.overlaps(first, count) {
            self.put_at_zone(slot, node, &list.drain());
        }
        false
    }

    #[inline]
    pub(super) fn put_listed(
        &self,
        slot: SlotIndex,
        node: NodeId,
        (first, count): (Pfn, u32),
        how: Passed,
    ) -> bool {
        let (list, most) = (self.pcps.store.extents(slot, node), self.most_listed());
        let is_put = most > 0 && list.put(first, count, most);
        if is_put {
            list.note(how);
        }
        is_put
    }

    /// All lists of extents.
    fn extent_lists(&self) -> impl Iterator<Item = &ExtentList> {
        let store = &self.pcps.store;
        let of = move |slot| store.nodes().map(move |node| store.extents(slot, node));
        store.slots().flat_map(of)
    }

    /// Extents that were taken from all lists, and put there, outside of the gate.
    #[must_use]
    pub fn extents_passed_outside(&self) -> (u64, u64) {
        let passed = |how| self.extent_lists().map(|list| list.passed(how)).sum();
        (passed(Passed::TakenOutside), passed(Passed::PutOutside))
    }

    /// Gives an extent for which its list has no room to the zone, and makes room for the next one.
    #[cold]
    pub(super) fn put_past_list(&self, slot: SlotIndex, node: NodeId, first: Pfn, count: u32) {
        let leaving = self.pcps.store.extents(slot, node).make_room();
        self.zones.put_extents(node, leaving.into_iter().chain(core::iter::once((first, count))));
        self.pcps.store.pcp(slot, node).bypass_free(1);
    }

    fn put_at_zone(&self, slot: SlotIndex, node: NodeId, leaving: &Leaving) -> bool {
        let is_any = leaving.iter().next().is_some();
        if is_any {
            self.zones.put_extents(node, leaving.iter());
            self.pcps
                .store
                .pcp(slot, node)
                .note_drain(leaving.iter().map(|(_, count)| count).sum());
        }
        is_any
    }

    pub(super) fn drain_extents_of(&self, slot: SlotIndex) {
        for node in self.pcps.store.nodes() {
            self.put_at_zone(slot, node, &self.pcps.store.extents(slot, node).drain());
        }
    }

    /// Gives the extents on all lists back to the zones. O(slots).
    pub fn drain_extents(&self) {
        self.pcps.store.slots().for_each(|slot| self.drain_extents_of(slot));
    }

    /// Gives those extents of a slot back that have been on its lists since the last call; returns
    /// whether there were any.
    pub(super) fn age_extents_of(&self, slot: SlotIndex) -> bool {
        let mut has_aged = false;
        for node in self.pcps.store.nodes() {
            let aged = self.pcps.store.extents(slot, node).age();
            has_aged |= self.put_at_zone(slot, node, &aged);
        }
        has_aged
    }

    /// Frames on the lists of a slot and node: pages, and extents. Waits for the lists of pages.
    #[must_use]
    pub fn listed_frames(&self, slot: SlotIndex, node: NodeId) -> u32 {
        let store = &self.pcps.store;
        store.tuning(slot, node).count + store.extents(slot, node).frames()
    }

    /// Returns whether any list has an extent. O(slots).
    #[must_use]
    pub fn lists_any_extent(&self) -> bool {
        self.extent_lists().any(|list| list.frames() > 0)
    }

    /// Checks the lists of extents of a node.
    ///
    /// # Errors
    /// The first equation that does not hold.
    pub(super) fn validate_extents(&self, node: NodeId) -> Result<(), Broken> {
        let pageblocks = self.zones.memory().pageblocks();
        let is_kept = |first: Pfn, count: u32| {
            let pageblock = pageblocks.of(first);
            pageblock.tag().node() != Some(node)
                || pageblock.extents_in(first.0 % PAGEBLOCK_FRAMES, count) > 0
                || (0..count).any(|offset| self.frames().state(first.plus(offset)).is_free())
        };
        let store = &self.pcps.store;
        store
            .slots()
            .try_for_each(|slot| store.extents(slot, node).validate(self.frames(), is_kept))
    }
}
