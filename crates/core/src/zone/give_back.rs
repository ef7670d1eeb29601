//! Giving back: pageblocks that are free as a whole become nobody's addresses, where a mapping or
//! another zone needs them, and where they have been free for a while. A zone that has a pageblock
//! back asks for it as for any other, so the reverse is growth.
//!
//! A pageblock that was given back is as it was before the zone took it: in no zone, all states
//! `USED`, nothing kept, and nobody's.

use super::block::{Block, ORDERS};
use super::zone::{Locked, ZoneRef};
use crate::frame::{MigrateType, Order, PAGEBLOCK_FRAMES, PCP_TYPES, PageblockTag, Pfn};

/// Which of the pageblocks that are free as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// All of them, and those that would be if no frames were kept for requests of an exact number.
    Any,
    /// Those that may hold data.
    Dirty,
    /// Those that hold nothing, as long as all that are free as a whole are more than so many
    /// frames.
    CleanBeyond(u32),
}

impl ZoneRef<'_> {
    /// Gives such pageblocks back, until about `most_bytes` are given back, if the zone grows on
    /// demand. Returns the bytes.
    pub(super) fn give_back(self, which: Whole, most_bytes: usize) -> usize {
        let mut given = 0;
        if !self.grows() {
            return given;
        }
        // Who makes a last look waits for what is off the lists meanwhile.
        let _purging = self.purging.lock();
        if which == Whole::Any {
            // Part of a pageblock may be kept as extents, and the rest be free blocks.
            self.flush_extents();
        }
        while given < most_bytes
            && let Some(block) = self.isolate_whole(which)
        {
            self.let_go(block);
            self.memory.give_back(block.pfn.pageblock(), block.order.frames() / PAGEBLOCK_FRAMES);
            given += block.order.bytes();
        }
        given
    }

    /// Takes a block off the lists that fills its pageblocks; the reserve is left alone.
    fn isolate_whole(self, which: Whole) -> Option<Block> {
        let mut locked = self.lock();
        let (pfn, order, of) = locked.find_whole(which)?;
        let zeroed = locked.take_off(pfn, order, of);
        Some(Block { pfn, order, zeroed })
    }

    /// Lets a block go for good that was taken off the lists.
    fn let_go(self, block: Block) {
        let frames = block.order.frames();
        let mut locked = self.lock();
        for offset in (0..frames).step_by(PAGEBLOCK_FRAMES as usize) {
            self.memory.pageblocks().of(block.pfn.plus(offset)).set_tag(PageblockTag::NONE);
        }
        locked.lose(frames);
    }
}

impl Locked<'_> {
    /// A free block that fills its pageblocks, the largest first, with its order and list.
    fn find_whole(&self, which: Whole) -> Option<(Pfn, Order, MigrateType)> {
        let (memory, areas) = (self.memory, &self.state.areas);
        let orders =
            || (Order::PAGEBLOCK.index()..ORDERS).rev().map(|order| Order::new(order as u8));
        let lists = || {
            let types = || MigrateType::ALL[..PCP_TYPES].iter().copied();
            orders().flat_map(move |order| types().map(move |of| (order, of)))
        };
        if let Whole::CleanBeyond(kept) = which {
            let whole: u32 = lists().map(|(order, of)| areas.nr(order, of) * order.frames()).sum();
            if whole <= kept {
                return None;
            }
        }
        // Blocks that have been purged are put at the tail.
        let is_zeroed = |pfn: Pfn| memory.frames().state(pfn).is_zeroed();
        let block_of = |order, of| match which {
            Whole::Any => areas.first(memory, order, of),
            Whole::Dirty => areas.first(memory, order, of).filter(|pfn| !is_zeroed(*pfn)),
            Whole::CleanBeyond(_) => areas.last(order, of).filter(|pfn| is_zeroed(*pfn)),
        };
        lists().find_map(|(order, of)| Some((block_of(order, of)?, order, of)))
    }
}
