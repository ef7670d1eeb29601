//! The exchange between blocks and extents of free frames, a pageblock at a time.

use super::block::{Block, for_each_part, free_blocks, largest_blocks};
use super::watermark::Mark;
use super::zone::Locked;
use crate::frame::{
    End, Memory, MigrateType, Order, PAGEBLOCK_FRAMES, Pageblock, PageblockIndex, Pfn,
};

impl Locked<'_> {
    pub(super) fn flush_pageblock(&mut self, index: PageblockIndex) {
        let pageblock = self.memory.pageblocks().at(index);
        if pageblock.longest_extent() == 0 || pageblock.shelf().is_some() {
            return;
        }
        let mut from = 0;
        while let Some((first, end)) = next_extent(self.memory, index, from) {
            from = end;
            for (pfn, order) in largest_blocks(index.first().plus(first), end - first) {
                let zeroed = !pageblock.has_dirty_in(pfn.0 % PAGEBLOCK_FRAMES, order.frames());
                self.put_block(Block { pfn, order, zeroed }, End::Head);
            }
        }
        self.state.extents.give_up(self.memory, index);
    }

    /// Keeps free frames as an extent, or as free blocks if the pageblock is not movable.
    pub(super) fn put_frames(&mut self, pfn: Pfn, count: u32, zeroed: bool) {
        let pageblock = self.memory.pageblocks().of(pfn);
        if pageblock.migratetype() != MigrateType::Movable {
            for (pfn, order) in largest_blocks(pfn, count) {
                self.put_block(Block { pfn, order, zeroed }, End::Head);
            }
            return;
        }
        let is_whole = self.state.extents.keep(self.memory, pfn, count, zeroed);
        // After a flush, some of the pageblock's free frames may be in blocks.
        let blocks = pageblock.free();
        if is_whole || blocks > 0 && blocks + pageblock.extents().count() == PAGEBLOCK_FRAMES {
            self.flush_pageblock(pfn.pageblock());
        }
    }

    /// Turns a block of a movable pageblock into an extent. The caller takes frames of it before
    /// the critical section ends, because then no pageblock may be all extents.
    pub(super) fn keep_block(&mut self, block: Block) {
        let Block { pfn, order, zeroed } = block;
        self.state.extents.keep(self.memory, pfn, order.frames(), zeroed);
    }

    /// Turns the free blocks of one movable pageblock into extents, unless too few blocks would be
    /// left on the lists. Chooses the pageblock of the largest free block that is below pageblock
    /// size and has a quarter of `count`: any `count` free neighbours include such a block.
    pub(super) fn gather(&mut self, count: u32) -> Option<PageblockIndex> {
        let (memory, areas) = (self.memory, &self.state.areas);
        let smallest = count.ilog2().saturating_sub(1) as u8;
        let largest = (smallest..Order::PAGEBLOCK.get())
            .rev()
            .map(Order::new)
            .find(|order| areas.nr(*order, MigrateType::Movable) != 0)?;
        let index = areas.first(memory, largest, MigrateType::Movable)?.pageblock();
        let pageblock = memory.pageblocks().at(index);
        let gathered = pageblock.free();
        // The extents of a lent pageblock are its shelf's.
        if pageblock.shelf().is_some()
            || areas.free() <= self.zone.marks.effective(Mark::High) + gathered
        {
            return None;
        }
        for block in free_blocks(memory, index.first()) {
            self.take_off(block.pfn, block.order, MigrateType::Movable);
            self.keep_block(block);
        }
        Some(index)
    }
}

/// Not inlined, so that the call stack has no copy of the bits while blocks are put back.
#[inline(never)]
fn next_extent(memory: &Memory, index: PageblockIndex, from: u32) -> Option<(u32, u32)> {
    memory.pageblocks().at(index).extents().next_extent(from)
}

#[inline]
pub(super) fn mark_movable(memory: &Memory, pfn: Pfn, order: Order) {
    for_each_part(memory, pfn, order, Pageblock::mark_movable);
}
