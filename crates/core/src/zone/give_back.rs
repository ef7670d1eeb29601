//! Giving back: pageblocks that are free as a whole return to the reservation, where a mapping or
//! another zone needs the address space. A zone that has a pageblock back asks for it as for any
//! other, so the reverse is [growth](super::grow).
//!
//! A pageblock that was given back is as it was before the zone took it: in no zone, all states
//! `USED`, nothing kept, its memory purged.

use super::free_area::{Block, End};
use super::zone::Zone;
use super::{ORDERS, Zones};
use crate::frame::{
    FrameState, Memory, MigrateType, Order, PAGEBLOCK_FRAMES, PCP_TYPES, PageblockTag,
};
use quarry_sys::primitive::Ordering::Relaxed;

impl Zones {
    /// Lets the zones that grow on demand give every pageblock that is free as a whole back to the
    /// reservation. Returns how many. O(pageblocks given back); calls of the operating system
    /// happen without a zone's lock.
    pub fn give_back(&self) -> u32 {
        let given = self.all().map(|zone| zone.give_back(self.memory())).sum();
        if given > 0 {
            self.refresh_marks();
        }
        given
    }

    /// Whether a zone has found the reservation used up, and others may have what it needs.
    pub(crate) fn is_crowded(&self) -> bool {
        self.nodes > 1 && self.all().any(|zone| zone.grows && zone.stuck.load(Relaxed))
    }
}

impl Zone {
    fn give_back(&self, memory: &Memory) -> u32 {
        let mut given = 0;
        if !self.grows {
            return given;
        }
        // Who makes a last look waits for what is off the lists meanwhile.
        let _purging = self.purging.lock();
        // Part of a pageblock may be kept as runs, and the rest be free blocks.
        self.flush_runs(memory);
        while let Some(block) = self.isolate_whole(memory) {
            let arena = memory.arena();
            let is_purged = block.zeroed
                || arena.os().purge(arena.address(block.pfn), block.order.bytes()).is_ok();
            self.settle(memory, block, is_purged);
            if !is_purged {
                break;
            }
            let pageblocks = block.order.frames() / PAGEBLOCK_FRAMES;
            arena.give_back(block.pfn.pageblock(), pageblocks);
            given += pageblocks;
        }
        given
    }

    /// Takes a block off the lists that fills its pageblocks; the reserve is left alone.
    fn isolate_whole(&self, memory: &Memory) -> Option<Block> {
        let mut inside = self.lock();
        let areas = &mut inside.areas;
        let (pfn, order, of) = (Order::PAGEBLOCK.index()..ORDERS)
            .rev()
            .map(|order| Order::new(order as u8))
            .find_map(|order| {
                let types = MigrateType::ALL[..PCP_TYPES].iter();
                types.copied().find_map(|of| Some((areas.first(memory, order, of)?, order, of)))
            })?;
        let zeroed = areas.remove(memory, pfn, order, of);
        memory.frames().set_state(pfn, FrameState::USED);
        self.isolated.store(self.isolated.load(Relaxed) + order.frames(), Relaxed);
        self.publish(areas);
        Some(Block { pfn, order, zeroed })
    }

    /// Lets a block go for good, or puts it back.
    fn settle(&self, memory: &Memory, block: Block, goes: bool) {
        let frames = block.order.frames();
        let mut inside = self.lock();
        if goes {
            for offset in (0..frames).step_by(PAGEBLOCK_FRAMES as usize) {
                memory.pageblocks().of(block.pfn.plus(offset)).set_tag(PageblockTag::NONE);
            }
            self.set_managed(self.managed() - frames);
        } else {
            inside.areas.put(memory, block, End::Tail);
        }
        self.isolated.store(self.isolated.load(Relaxed) - frames, Relaxed);
        self.publish(&inside.areas);
    }
}
