//! Giving back: pageblocks that are free as a whole become nobody's addresses, where a mapping or
//! another zone needs them, and where they have been free for a while. A zone that has a pageblock
//! back asks for it as for any other, so the reverse is [growth](super::grow).
//!
//! A pageblock that was given back is as it was before the zone took it: in no zone, all states
//! `USED`, nothing kept, and nobody's.

use super::free_area::Block;
use super::zone::Zone;
use super::{ORDERS, Zones};
use crate::frame::{
    FrameState, Memory, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, PCP_TYPES, PageblockTag, Pfn,
};
use quarry_sys::primitive::Ordering::Relaxed;

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

impl Zones {
    /// Lets the zones that grow on demand give every pageblock that is free as a whole back.
    /// Returns the bytes. O(pageblocks given back); calls of the operating system happen without a
    /// zone's lock.
    pub fn give_back(&self) -> usize {
        self.all().map(|zone| self.give_back_of(zone.node(), Whole::Any, usize::MAX)).sum()
    }

    /// Lets the zone of a node, if it grows on demand, give back such pageblocks, until about
    /// `most_bytes` are given back. Returns the bytes.
    pub fn give_back_of(&self, node: NodeId, which: Whole, most_bytes: usize) -> usize {
        let given = self.zone(node).give_back(self.memory(), which, most_bytes);
        if given > 0 {
            self.refresh_marks();
        }
        given
    }

    /// Whether a zone has found the window used up, and others may have what it needs.
    pub(crate) fn is_crowded(&self) -> bool {
        self.nodes > 1 && self.all().any(|zone| zone.grows && zone.stuck.load(Relaxed))
    }
}

impl Zone {
    fn give_back(&self, memory: &Memory, which: Whole, most_bytes: usize) -> usize {
        let mut given = 0;
        if !self.grows {
            return given;
        }
        // Who makes a last look waits for what is off the lists meanwhile.
        let _purging = self.purging.lock();
        if which == Whole::Any {
            // Part of a pageblock may be kept as extents, and the rest be free blocks.
            self.flush_extents(memory);
        }
        while given < most_bytes
            && let Some(block) = self.isolate_whole(memory, which)
        {
            self.let_go(memory, block);
            memory.give_back(block.pfn.pageblock(), block.order.frames() / PAGEBLOCK_FRAMES);
            given += block.order.bytes();
        }
        given
    }

    /// Takes a block off the lists that fills its pageblocks; the reserve is left alone.
    fn isolate_whole(&self, memory: &Memory, which: Whole) -> Option<Block> {
        let mut inside = self.lock();
        let areas = &mut inside.areas;
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
        let (pfn, order, of) =
            lists().find_map(|(order, of)| Some((block_of(order, of)?, order, of)))?;
        let zeroed = areas.remove(memory, pfn, order, of);
        memory.frames().set_state(pfn, FrameState::USED);
        self.isolated.store(self.isolated.load(Relaxed) + order.frames(), Relaxed);
        self.publish(areas);
        Some(Block { pfn, order, zeroed })
    }

    /// Lets a block go for good that was taken off the lists.
    fn let_go(&self, memory: &Memory, block: Block) {
        let frames = block.order.frames();
        let inside = self.lock();
        for offset in (0..frames).step_by(PAGEBLOCK_FRAMES as usize) {
            memory.pageblocks().of(block.pfn.plus(offset)).set_tag(PageblockTag::NONE);
        }
        self.set_managed(self.managed() - frames);
        self.isolated.store(self.isolated.load(Relaxed) - frames, Relaxed);
        self.publish(&inside.areas);
    }
}
