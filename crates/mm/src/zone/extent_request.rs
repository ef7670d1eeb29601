//! Requests for extents, each served in one critical section.

use super::ask::AllocFlags;
use super::block::Block;
use super::exchange::mark_movable;
use super::extents::Extent;
use super::fallback::Mode;
use super::watermark::Mark;
use super::zone::{Locked, ZoneRef};
use crate::frame::{MigrateType, Order, Pfn};

/// Maximum number of pageblocks that a request gathers before it takes a whole pageblock.
const GATHERS: usize = 4;

impl ZoneRef<'_> {
    pub(super) fn take_extent(self, count: u32, align: Order) -> Option<Extent> {
        let mut locked = self.lock();
        let extent = locked.take_extent(count, align.frames());
        let extent = extent.or_else(|| locked.carve_extent(count, align));
        locked.count_extent(extent.is_some(), count);
        extent
    }

    pub(super) fn take_extent_with_room(self, count: u32) -> Option<Extent> {
        let mut locked = self.lock();
        let extent = locked.state.extents.take_with_room(self.memory, count);
        locked.count_extent(extent.is_some(), count);
        extent
    }

    pub(super) fn take_extent_at(self, pfn: Pfn, count: u32) -> bool {
        let mut locked = self.lock();
        let is_taken = locked.state.extents.take_at(self.memory, pfn, count);
        locked.count_extent(is_taken, count);
        is_taken
    }

    /// Puts extents back, each within one pageblock; returns their number of frames.
    pub(super) fn put_extents(self, extents: impl Iterator<Item = (Pfn, u32)>) -> u32 {
        let (mut locked, mut frames) = (self.lock(), 0);
        for (pfn, count) in extents {
            locked.put_frames(pfn, count, false);
            locked.state.counts.put.add(1, count.into());
            frames += count;
        }
        frames
    }

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
    /// Takes a kept extent, or gathers one while enough blocks are left on the lists.
    #[inline]
    fn take_extent(&mut self, count: u32, align: u32) -> Option<Extent> {
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
    fn carve_extent(&mut self, count: u32, align: Order) -> Option<Extent> {
        let memory = self.memory;
        for order in [Order::PAGEBLOCK, Order::covering(count).max(align)] {
            if !self.watermark_ok(order, Mark::Low, AllocFlags::default()) {
                continue;
            }
            let block = self.take_any(order, MigrateType::Movable, &mut Mode::default());
            let Some(Block { pfn, order, zeroed }) = block else { continue };
            if memory.pageblocks().of(pfn).migratetype() == MigrateType::Movable {
                self.keep_block(Block { pfn, order, zeroed });
                let index = pfn.pageblock();
                return self.state.extents.take_in(memory, index, count, align.frames());
            }
            // The block was stolen: its other frames go back as blocks of their pageblock's type.
            mark_movable(self.memory, pfn, order);
            self.put_frames(pfn.plus(count), order.frames() - count, zeroed);
            return Some(Extent { pfn, zeroed });
        }
        None
    }

    fn count_extent(&mut self, is_taken: bool, count: u32) {
        let blocks = u64::from(is_taken);
        self.state.counts.taken.add(blocks, blocks * u64::from(count));
    }
}
