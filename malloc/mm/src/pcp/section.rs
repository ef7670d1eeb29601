//! Many blocks in one critical section: lists of pages, and exact numbers of frames.

use super::alloc::PageRequest;
use super::allocator::PageAllocator;
use super::config::FreeListPolicy;
use super::policy::{COSTLY_ORDER, PagePolicy};
use crate::frame::{End, FrameState, MAX_ORDER, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, Pfn};
use crate::zone::{AllocFlags, Block, EXTENT_FRAMES, Page, largest_blocks};
use quarry_sys::percpu::SlotIndex;

const MOST_PIECES: usize = 1 << COSTLY_ORDER;

impl<P: PagePolicy> PageAllocator<P> {
    /// Frees a list of blocks by the [`FreeListPolicy`]. `PerPage` frees each block in a critical
    /// section of its own. `OneSection` checks all blocks, then frees them in one critical section
    /// per node (and another of the zone for orders without lists). Aborts the process if a block
    /// is free already, for example because the list names it twice.
    pub fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]) {
        self.free_list_at(slot, pages, End::Head);
    }

    /// Same as [`free_list`](Self::free_list), at one end of the lists. The tail is for pages that
    /// no CPU cache holds (the cold hint of Linux up to 4.14).
    pub fn free_list_at(&self, slot: SlotIndex, pages: &[(Pfn, Order)], end: End) {
        match (self.free_list, end) {
            (FreeListPolicy::OneSection, _) => self.free_in_sections(slot, pages, end),
            (FreeListPolicy::PerPage, End::Head) => self.free_each(slot, pages),
            (FreeListPolicy::PerPage, End::Tail) => {
                pages.chunks(1).for_each(|page| self.free_in_sections(slot, page, end));
            }
        }
    }

    #[inline(never)]
    fn free_each(&self, slot: SlotIndex, pages: &[(Pfn, Order)]) {
        pages.iter().for_each(|(pfn, order)| self.free(slot, *pfn, *order));
    }

    #[inline(never)]
    fn free_in_sections(&self, slot: SlotIndex, pages: &[(Pfn, Order)], end: End) {
        let mut nodes = 0u32;
        for (pfn, order) in pages {
            nodes |= 1 << self.prepare_free(*pfn, *order).0;
        }
        for node in (0..u32::BITS as u8).filter(|node| nodes >> node & 1 == 1) {
            self.free_section((slot, NodeId(node)), pages, (false, end));
        }
    }

    /// Takes exactly `count` frames (1..=1024, or panics) at a multiple of `align`. If they are
    /// movable and `count` is in [`EXTENT_FRAMES`], takes an extent in one critical section.
    /// Otherwise, or if this fails, takes the front of a block; a second section frees the rest.
    pub fn alloc_exact(
        &self,
        slot: SlotIndex,
        count: u32,
        migratetype: MigrateType,
        align: Order,
    ) -> Option<Page> {
        assert!((1..=1 << MAX_ORDER).contains(&count), "1..=1024 frames, not {count}");
        let order = Order::covering(count).max(align);
        let node = self.zones().node_of(slot);
        let flags = AllocFlags::default();
        if migratetype == MigrateType::Movable
            && EXTENT_FRAMES.contains(&count)
            && align < Order::PAGEBLOCK
            && let Some(page) = self.store.alloc_extent((slot, node), (count, align))
        {
            return Some(page);
        }
        let page = self.alloc(slot, PageRequest { order, migratetype, flags, node })?;
        let rest = (page.pfn.plus(count), order.frames() - count);
        let home = self.memory().pageblocks().of(page.pfn).tag().node();
        if let Some(node) = home.filter(|_| count < order.frames()) {
            self.free_pieces((slot, node), order, rest, page.zeroed);
        }
        Some(page)
    }

    /// Frees all but the first `kept` of the `held` frames of [`alloc_exact`](Self::alloc_exact).
    pub(crate) fn trim_exact(&self, slot: SlotIndex, first: Pfn, held: u32, kept: u32) {
        let (tail, count) = (first.plus(kept), held - kept);
        match self.extent_node(tail, count) {
            Some(node) if EXTENT_FRAMES.contains(&held) => {
                // The tail goes to the zone, because the owner may want to grow into it again.
                self.check_extent(tail, count);
                self.store.put_extents(node, &[(tail, count)]);
                self.store.pcp(slot, node).bypass_free(1);
            }
            _ => self.free_exact(slot, tail, count),
        }
    }

    /// Extends `held` frames of [`alloc_exact`](Self::alloc_exact) to `wanted` frames (both numbers
    /// in [`EXTENT_FRAMES`]), if the frames after them are free in extents. Returns whether it did.
    pub(crate) fn extend_exact(&self, slot: SlotIndex, first: Pfn, held: u32, wanted: u32) -> bool {
        debug_assert!(wanted > held);
        if !EXTENT_FRAMES.contains(&held) || !EXTENT_FRAMES.contains(&wanted) {
            return false;
        }
        let Some(node) = self.extent_node(first, wanted) else { return false };
        let (behind, missing) = (first.plus(held), wanted - held);
        if self.store.take_listed_at((slot, node), behind, missing) {
            return true;
        }
        let is_taken = self.store.take_extent_at(node, behind, missing);
        if is_taken {
            self.store.pcp(slot, node).bypass_alloc(1);
        }
        is_taken
    }

    /// Takes `count` movable frames that are followed by as many free ones, for an allocation that
    /// will grow.
    pub(crate) fn alloc_extent_with_room(&self, slot: SlotIndex, count: u32) -> Option<Page> {
        let node = self.zones().node_of(slot);
        if !EXTENT_FRAMES.contains(&count) {
            return None;
        }
        let page = self.zones().take_extent_with_room(node, count)?;
        self.store.pcp(slot, node).bypass_alloc(1);
        Some(page)
    }

    /// Aborts the process if frames that are about to become a free extent are free already.
    fn check_extent(&self, first: Pfn, count: u32) {
        let pageblock = self.memory().pageblocks().of(first);
        let kept = pageblock.extents_in(first.0 % PAGEBLOCK_FRAMES, count);
        if kept > 0 || self.frames().state(first).is_free() {
            self.refuse_free(first, Order::ZERO);
        }
    }

    /// Frees `count` frames from `first` on in one critical section, as an extent or else in the
    /// largest possible blocks. Aborts the process if a block of them is free already.
    pub fn free_exact(&self, slot: SlotIndex, first: Pfn, count: u32) {
        if EXTENT_FRAMES.contains(&count)
            && let Some(node) = self.extent_node(first, count)
        {
            self.check_extent(first, count);
            return self.store.free_extent((slot, node), (first, count));
        }
        if count.is_power_of_two() && count <= 1 << MAX_ORDER && first.0.is_multiple_of(count) {
            return self.free(slot, first, Order::covering(count));
        }
        let Some(last) = count.checked_sub(1) else { return };
        let node = self.memory().pageblocks().of(first).tag().node();
        let of_last = self.memory().pageblocks().of(first.plus(last)).tag().node();
        assert!(of_last == node, "the frames belong to one zone");
        for (pfn, order) in largest_blocks(first, count) {
            self.prepare_free(pfn, order);
        }
        if let Some(node) = node {
            let order = Order::covering(count.min(1 << MAX_ORDER));
            self.free_pieces((slot, node), order, (first, count), false);
        }
    }

    /// Frees the pieces of one block of `order` in one critical section. If `order` is above
    /// [`COSTLY_ORDER`], the pieces go to the zone: on lists, until a drain, they would keep their
    /// buddies from merging.
    #[inline(never)]
    fn free_pieces(
        &self,
        (slot, node): (SlotIndex, NodeId),
        order: Order,
        (first, count): (Pfn, u32),
        zeroed: bool,
    ) {
        let pieces = largest_blocks(first, count);
        if order.get() > COSTLY_ORDER {
            let blocks = pieces.map(|(pfn, order)| Block { pfn, order, zeroed });
            return self.free_at_zone(slot, node, blocks);
        }
        let (mut pages, mut number) = ([(Pfn::NONE, Order::ZERO); MOST_PIECES], 0);
        for (place, piece) in pages.iter_mut().zip(pieces) {
            *place = piece;
            number += 1;
        }
        let pages = pages.get(..number).unwrap_or_default();
        self.free_section((slot, node), pages, (zeroed, End::Head));
    }

    /// Checks a block and marks it, so that a second entry for it aborts the process.
    fn prepare_free(&self, pfn: Pfn, order: Order) -> NodeId {
        let (node, _) = self.check_freed(pfn, order);
        self.frames().set_state(pfn, FrameState::in_pcp(order, false));
        node
    }
}
