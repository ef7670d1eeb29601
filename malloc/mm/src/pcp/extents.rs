//! Extents on the lists of CPUs: taking, putting, and giving them back to zones.
//!
//! A CPU keeps extents that it frees: one of any size, and more up to a share of the memory in use,
//! so that the process grows little. If memory is short, a CPU keeps none.

use super::extent_list::{ExtentList, Leaving, Movement};
use super::store::ListStore;
use crate::frame::{MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, Pfn};
use crate::zone::{AllocFlags, Ask, Mark, Page, Urgency};
use quarry_sys::broken::Broken;
use quarry_sys::percpu::SlotIndex;

/// First of a list's two bounds, of which the larger holds: frames in use / `SHARE`, at most 1 MiB.
const SHARE: u32 = 8;
const SMALL_MOST: u32 = 256;
/// Second bound: the frames in use divided by this and by the number of slots, at most 8 MiB.
const SHARE_OF_ALL: u32 = 32;
const MOST: u32 = 2048;
/// The maximum number of times that a request makes room in a zone and loses that room to other
/// requests, before it gives up (`MAX_RECLAIM_RETRIES`, Linux 4.7 to 6.18).
pub const MOST_LOST: u32 = 16;

impl ListStore {
    #[inline]
    fn most_listed(&self) -> u32 {
        let budget = self.zones.budget();
        if !self.lists_extents || budget.is_below(Mark::High) {
            return 0;
        }
        let (used, slots) = (budget.used(), self.slots().len() as u32);
        (used / SHARE).min(SMALL_MOST).max((used / (SHARE_OF_ALL * slots)).min(MOST))
    }

    #[inline]
    pub(super) fn take_listed(
        &self,
        (slot, node): (SlotIndex, NodeId),
        (count, align): (u32, Order),
        how: Movement,
    ) -> Option<Pfn> {
        let list = self.extents(slot, node);
        let taken = list.take(count, align)?;
        list.note(how);
        Some(taken)
    }

    /// Takes the frames by which an allocation grows, if the list has all of them. If the list has
    /// only some, gives all its extents to the zone.
    pub(super) fn take_listed_at(
        &self,
        (slot, node): (SlotIndex, NodeId),
        first: Pfn,
        count: u32,
    ) -> bool {
        let list = self.extents(slot, node);
        if list.take_at(first, count) {
            list.note(Movement::Taken);
            return true;
        }
        if list.overlaps(first, count) {
            self.put_at_zone((slot, node), &list.drain());
        }
        false
    }

    #[inline]
    pub(super) fn put_listed(
        &self,
        (slot, node): (SlotIndex, NodeId),
        (first, count): (Pfn, u32),
        how: Movement,
    ) -> bool {
        let (list, most) = (self.extents(slot, node), self.most_listed());
        let is_put = most > 0 && list.put(first, count, most);
        if is_put {
            list.note(how);
        }
        is_put
    }

    pub(super) fn alloc_extent(
        &self,
        (slot, node): (SlotIndex, NodeId),
        (count, align): (u32, Order),
    ) -> Option<Page> {
        if let Some(pfn) = self.take_listed((slot, node), (count, align), Movement::Taken) {
            return Some(Page { pfn, zeroed: false });
        }
        if let Some(page) = self.shelves.take(&self.zones, (slot, node), (count, align)) {
            return Some(page);
        }
        let page = self.zones.take_extent(node, count, align);
        let page = page.or_else(|| self.alloc_extent_slow(node, count, align))?;
        self.shelves.look(&self.zones, node);
        self.pcp(slot, node).bypass_alloc(1);
        Some(page)
    }

    #[cold]
    fn alloc_extent_slow(&self, node: NodeId, count: u32, align: Order) -> Option<Page> {
        let order = Order::covering(count).max(align);
        let migratetype = MigrateType::Movable;
        let ask = Ask { order, migratetype, flags: AllocFlags::default() };
        for _ in 0..MOST_LOST {
            // If the zone cannot grow, its last frames are for requests that may use the reserve.
            if !self.zones.grow(node, &ask, Urgency::Low) {
                return None;
            }
            let extent = self.zones.take_extent(node, count, align);
            if extent.is_some() {
                return extent;
            }
        }
        None
    }

    pub(super) fn free_extent(&self, at: (SlotIndex, NodeId), (first, count): (Pfn, u32)) {
        if !self.put_listed(at, (first, count), Movement::Put) {
            self.put_past_list(at, first, count);
        }
    }

    pub(super) fn extent_lists(&self) -> impl Iterator<Item = &ExtentList> {
        let of = move |slot| self.nodes().map(move |node| self.extents(slot, node));
        self.slots().flat_map(of)
    }

    /// Gives an extent to the zone, because the list is full, and makes room on the list for the
    /// next.
    #[cold]
    fn put_past_list(&self, (slot, node): (SlotIndex, NodeId), first: Pfn, count: u32) {
        let leaving = self.extents(slot, node).make_room();
        match leaving {
            Some(leaving) => self.put_extents(node, &[leaving, (first, count)]),
            None => self.put_extents(node, &[(first, count)]),
        }
        self.pcp(slot, node).bypass_free(1);
    }

    /// Gives extents, at most 32, back to the shelves or the zone that they come from.
    #[inline(never)]
    pub(super) fn put_extents(&self, node: NodeId, extents: &[(Pfn, u32)]) {
        let mut left = u32::MAX >> (32 - extents.len());
        while left != 0 {
            for (number, (first, count)) in extents.iter().enumerate() {
                if left >> number & 1 == 1
                    && self.shelves.is_open()
                    && self.shelves.put(&self.zones, node, *first, *count)
                {
                    left &= !(1 << number);
                }
            }
            if left != 0 {
                left = self.zones.put_extents(node, extents, left);
            }
        }
    }

    /// Takes the `count` frames from `first` on, if they are free in extents.
    pub(super) fn take_extent_at(&self, node: NodeId, first: Pfn, count: u32) -> bool {
        // If the pageblock comes to a shelf, or leaves it, meanwhile, neither finds the frames.
        match self.zones.memory().pageblocks().of(first).shelf() {
            Some(_) => self.shelves.take_at(&self.zones, first, count),
            None => self.zones.take_extent_at(node, first, count),
        }
    }

    fn put_at_zone(&self, (slot, node): (SlotIndex, NodeId), leaving: &Leaving) -> bool {
        let extents = leaving.extents();
        if extents.is_empty() {
            return false;
        }
        self.put_extents(node, extents);
        self.pcp(slot, node).note_drain(extents.iter().map(|(_, count)| count).sum());
        true
    }

    pub(super) fn drain_extents_of(&self, slot: SlotIndex) {
        for node in self.nodes() {
            self.put_at_zone((slot, node), &self.extents(slot, node).drain());
        }
        self.shelves.drain(&self.zones, slot, false);
    }

    /// Gives the extents that have not changed since the last call to the zones; returns whether
    /// there were any.
    pub(super) fn age_extents_of(&self, slot: SlotIndex) -> bool {
        let mut has_aged = false;
        for node in self.nodes() {
            let aged = self.extents(slot, node).age();
            has_aged |= self.put_at_zone((slot, node), &aged);
        }
        has_aged | self.shelves.drain(&self.zones, slot, true)
    }

    pub(super) fn validate_extents(&self, node: NodeId) -> Result<(), Broken> {
        let (pageblocks, frames) = (self.zones.memory().pageblocks(), self.zones.frames());
        let is_kept = |first: Pfn, count: u32| {
            let pageblock = pageblocks.of(first);
            pageblock.tag().node() != Some(node)
                || pageblock.extents_in(first.0 % PAGEBLOCK_FRAMES, count) > 0
                || (0..count).any(|offset| frames.state(first.plus(offset)).is_free())
        };
        self.slots().try_for_each(|slot| self.extents(slot, node).validate(frames, is_kept))
    }
}
