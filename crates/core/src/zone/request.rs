//! Requests for blocks, each served in one critical section.

use super::ask::{Ask, Destination};
use super::block::{Block, largest_blocks};
use super::fallback::Mode;
use super::zone::{Locked, ZoneRef};
use crate::frame::{End, MigrateType, PAGEBLOCK_FRAMES, PageblockIndex, PageblockTag, Pfn};

impl ZoneRef<'_> {
    /// Takes up to `count` blocks; each goes to `give` with the lock held. Returns how many.
    #[inline]
    pub(super) fn take(
        self,
        ask: &Ask,
        count: u32,
        destination: Destination,
        mut give: impl FnMut(Pfn, bool),
    ) -> u32 {
        let frames = self.memory.frames();
        let mut locked = self.lock();
        let (mut taken, mut mode) = (0, Mode::default());
        while taken < count {
            let Some(block) = locked.take_one(ask, &mut mode) else { break };
            let Block { pfn, order, zeroed } = block;
            if ask.migratetype == MigrateType::Movable {
                locked.mark_movable(pfn, order);
            }
            frames.set_state(pfn, destination.state(order, zeroed));
            give(pfn, zeroed);
            taken += 1;
        }
        let blocks = u64::from(taken);
        locked.state.counts.taken.add(blocks, blocks * u64::from(ask.order.frames()));
        taken
    }

    /// Puts blocks back; returns the number of frames.
    #[inline]
    pub(super) fn put(self, blocks: impl Iterator<Item = Block>) -> u32 {
        let mut locked = self.lock();
        let (mut count, mut frames) = (0, 0);
        for block in blocks {
            locked.put_block(block, End::Head);
            count += 1;
            frames += block.order.frames();
        }
        locked.state.counts.put.add(count, u64::from(frames));
        frames
    }

    /// Adds the first `frames` frames of pageblocks that were taken for the zone.
    pub(super) fn add_frames(self, first: PageblockIndex, frames: u32) {
        let mut locked = self.lock();
        let tag = PageblockTag::new(self.node(), MigrateType::Movable);
        let end = PageblockIndex(first.0 + frames.div_ceil(PAGEBLOCK_FRAMES));
        for index in first.0..end.0 {
            self.memory.pageblocks().at(PageblockIndex(index)).set_tag(tag);
        }
        for (pfn, order) in largest_blocks(first.first(), frames) {
            locked.put_block(Block { pfn, order, zeroed: true }, End::Tail);
        }
        locked.gain(frames, end);
    }
}

impl Locked<'_> {
    /// Takes one block from the lists that the request may use.
    #[inline]
    fn take_one(&mut self, ask: &Ask, mode: &mut Mode) -> Option<Block> {
        if ask.flags.high_atomic {
            let reserved = self.take_smallest(ask.order, MigrateType::HighAtomic);
            if reserved.is_some() {
                return reserved;
            }
        }
        let block = self.take_any(ask.order, ask.migratetype, mode);
        if block.is_none() && ask.flags.non_block {
            return self.take_smallest(ask.order, MigrateType::HighAtomic);
        }
        block
    }
}
