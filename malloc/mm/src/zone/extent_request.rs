//! Requests for extents, each served in one critical section.

use super::ask::{AllocFlags, Page};
use super::block::Block;
use super::exchange::mark_movable;
use super::extents::EXTENT_FRAMES;
use super::fallback::Mode;
use super::watermark::Mark;
use super::zone::{Locked, ZoneRef};
use super::zones::Zones;
use crate::frame::{
    End, FrameBits, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, PageblockIndex, Pfn,
};

/// Maximum number of pageblocks that a request gathers before it takes a whole pageblock.
const GATHERS: usize = 4;

/// A pageblock that a zone has lent to a shelf.
pub(crate) struct Lent {
    pub(crate) index: PageblockIndex,
    /// Its free frames, and those of them that are not known to be zero.
    pub(crate) bits: FrameBits,
    pub(crate) dirty: FrameBits,
}

impl Zones {
    /// Takes `count` frames (a number in [`EXTENT_FRAMES`]) from one node, in one critical section,
    /// at a multiple of `align`, an order below that of a pageblock. Returns `None` if the budget
    /// has no room, or if no extent is long enough and making one would take the zone below its low
    /// mark. O(pageblocks that it examines), a bounded number.
    pub(crate) fn take_extent(&self, node: NodeId, count: u32, align: Order) -> Option<Page> {
        debug_assert!(EXTENT_FRAMES.contains(&count) && align < Order::PAGEBLOCK);
        self.charged(node, count, |locked| {
            let extent = locked.take_extent(count, align.frames());
            extent.or_else(|| locked.carve_extent(count, align))
        })
    }

    /// Same as [`take_extent`](Self::take_extent), but only from a free extent of at least `2 *
    /// count` frames; the `count` frames after the taken ones stay free for growth.
    pub(crate) fn take_extent_with_room(&self, node: NodeId, count: u32) -> Option<Page> {
        debug_assert!(EXTENT_FRAMES.contains(&count));
        self.charged(node, count, |locked| {
            locked.state.extents.take_with_room(locked.memory, count)
        })
    }

    /// Takes the `count` frames from `pfn` on (all in one pageblock) in one critical section, if
    /// they are free in extents of the node. So an allocation that ends at `pfn` can grow.
    pub(crate) fn take_extent_at(&self, node: NodeId, pfn: Pfn, count: u32) -> bool {
        debug_assert!(pfn.0 % PAGEBLOCK_FRAMES + count <= PAGEBLOCK_FRAMES);
        let taken = self.charged(node, count, |locked| {
            let is_on_shelf = locked.memory.pageblocks().of(pfn).shelf().is_some();
            let is_taken = !is_on_shelf && locked.state.extents.take_at(locked.memory, pfn, count);
            is_taken.then_some(())
        });
        taken.is_some()
    }

    /// Charges `count` frames and calls `take` in a critical section, which the zone counts.
    fn charged<T>(
        &self,
        node: NodeId,
        count: u32,
        take: impl FnOnce(&mut Locked<'_>) -> Option<T>,
    ) -> Option<T> {
        if self.budget().charge_blocks(1, count) == 0 {
            return None;
        }
        let mut locked = self.of(node).lock();
        let taken = take(&mut locked);
        let blocks = u64::from(taken.is_some());
        locked.state.counts.taken.add(blocks, blocks * u64::from(count));
        drop(locked);
        if taken.is_none() {
            self.budget().uncharge(count);
        }
        taken
    }

    /// Puts those extents back whose bits are set in `which`, each within one pageblock. Leaves
    /// those whose pageblock is on a shelf by now, and returns their bits.
    #[inline(never)]
    pub(crate) fn put_extents(&self, node: NodeId, extents: &[(Pfn, u32)], which: u32) -> u32 {
        let (mut locked, mut frames, mut left) = (self.of(node).lock(), 0, 0);
        for (number, (pfn, count)) in extents.iter().enumerate() {
            if which >> number & 1 == 0 {
                continue;
            }
            if locked.memory.pageblocks().of(*pfn).shelf().is_some() {
                left |= 1 << number;
                continue;
            }
            locked.put_frames(*pfn, *count, false);
            locked.state.counts.put.add(1, u64::from(*count));
            frames += count;
        }
        drop(locked);
        self.budget().uncharge(frames);
        left
    }

    /// Lends a pageblock with an extent of `count` or more frames, and without free blocks, to a
    /// shelf, whose lock is held; none while a purge may have frames of it off the lists. Its
    /// extents count as used from now on.
    pub(crate) fn lend(&self, node: NodeId, shelf: u32, count: u32) -> Option<Lent> {
        let mut locked = self.of(node).lock();
        let (memory, index) = (locked.memory, locked.state.extents.longest()?);
        let pageblock = memory.pageblocks().at(index);
        let (bits, dirty) = (pageblock.extents(), pageblock.dirty_extents());
        if locked.zone.purging.is_held()
            || pageblock.longest_extent() < count
            || pageblock.free() > 0
            || self.budget().charge_blocks(1, bits.count()) == 0
        {
            return None;
        }
        locked.state.extents.give_up(memory, index);
        pageblock.set_shelf(Some(shelf));
        Some(Lent { index, bits, dirty })
    }

    /// Takes a pageblock back from its shelf, whose lock is held, and the frames in `all`, of which
    /// `dirty` are not known to be zero.
    pub(crate) fn take_back(
        &self,
        node: NodeId,
        index: PageblockIndex,
        (all, dirty): (FrameBits, FrameBits),
    ) {
        let mut locked = self.of(node).lock();
        locked.memory.pageblocks().at(index).set_shelf(None);
        locked.put_bits(index, all.without(dirty), true);
        locked.put_bits(index, dirty, false);
        locked.state.counts.put.add(1, all.count().into());
        drop(locked);
        self.budget().uncharge(all.count());
    }

    /// Turns all extents into free blocks.
    pub(crate) fn flush_extents(&self) {
        self.all().for_each(|zone| self.of(zone.node()).flush_extents());
    }

    /// Flushes extents until the zone has a block of `order` above its low mark. Returns whether it
    /// has one now.
    pub(crate) fn flush_extents_for(&self, node: NodeId, order: Order) -> bool {
        let zone = self.of(node);
        while !zone.watermark_ok(order, Mark::Low, AllocFlags::default()) {
            if !zone.flush_longest() {
                return false;
            }
        }
        true
    }
}

impl ZoneRef<'_> {
    /// Flushes the pageblock with the longest extent; returns false if there is no extent.
    pub(super) fn flush_longest(self) -> bool {
        if self.kept_in_extents() == 0 {
            return false;
        }
        let mut locked = self.lock();
        let longest = locked.state.extents.longest();
        if let Some(index) = longest {
            locked.flush_pageblock(index);
        }
        longest.is_some()
    }

    pub(super) fn flush_extents(self) {
        while self.flush_longest() {}
    }
}

impl Locked<'_> {
    /// Keeps free frames of one pageblock: see [`put_frames`](Self::put_frames).
    pub(super) fn put_bits(&mut self, index: PageblockIndex, bits: FrameBits, zeroed: bool) {
        for (first, end) in bits.extents() {
            self.put_frames(index.first().plus(first), end - first, zeroed);
        }
    }

    /// Takes a kept extent, or gathers one while enough blocks are left on the lists.
    #[inline]
    fn take_extent(&mut self, count: u32, align: u32) -> Option<Page> {
        let extent = self.state.extents.take(self.memory, count, align);
        if extent.is_some() {
            return extent;
        }
        for _ in 0..GATHERS {
            let index = self.gather(count)?;
            let extent = self.state.extents.take_in(self.memory, index, count, align);
            if extent.is_some() {
                return extent;
            }
        }
        None
    }

    /// Takes the front of a whole pageblock, or else of the smallest block that is long enough.
    #[cold]
    fn carve_extent(&mut self, count: u32, align: Order) -> Option<Page> {
        let memory = self.memory;
        for order in [Order::PAGEBLOCK, Order::covering(count).max(align)] {
            if !self.watermark_ok(order, Mark::Low, AllocFlags::default()) {
                continue;
            }
            let block = self.take_any(order, MigrateType::Movable, &mut Mode::default());
            let Some(Block { pfn, order, zeroed }) = block else { continue };
            if memory.pageblocks().of(pfn).shelf().is_some() {
                self.put_block(Block { pfn, order, zeroed }, End::Head);
                continue;
            }
            if memory.pageblocks().of(pfn).migratetype() == MigrateType::Movable {
                self.keep_block(Block { pfn, order, zeroed });
                let index = pfn.pageblock();
                return self.state.extents.take_in(memory, index, count, align.frames());
            }
            // The block was stolen: its other frames go back as blocks of their pageblock's type.
            mark_movable(self.memory, pfn, order);
            self.put_frames(pfn.plus(count), order.frames() - count, zeroed);
            return Some(Page { pfn, zeroed });
        }
        None
    }
}
