//! One zone: the free memory of one node.

use super::buddy::for_each_part;
use super::free_area::{Block, End, FreeAreas};
use super::{Budget, Destination};
use crate::frame::{
    MAX_ORDER, Memory, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, Pageblock, PageblockIndex,
    PageblockTag, Pfn,
};
use quarry_sys::lock::{CountedLock, Guard, LockStats};
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed};

/// A zone grows by pairs of pageblocks, so that a block of order 10 never has a foreign half.
const GROWTH_UNIT: u32 = 2;
/// Largest step: 32 MiB.
const GROWTH_MAX: u32 = 16;

/// The next step of growth, in pageblocks.
struct Growth {
    step: u32,
}

/// The free memory of one node.
pub struct Zone {
    node: NodeId,
    grows: bool,
    areas: CountedLock<FreeAreas>,
    growth: CountedLock<Growth>,
    managed: AtomicU32,
    free: AtomicU32,
}

impl Zone {
    pub(super) const fn new(node: NodeId, grows: bool) -> Self {
        Self {
            node,
            grows,
            areas: CountedLock::new(FreeAreas::new()),
            growth: CountedLock::new(Growth { step: GROWTH_UNIT }),
            managed: AtomicU32::new(0),
            free: AtomicU32::new(0),
        }
    }

    /// Its node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Frames that belong to the zone.
    #[must_use]
    pub fn managed(&self) -> u32 {
        self.managed.load(Relaxed)
    }

    /// Frames on its free lists.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free.load(Relaxed)
    }

    pub(super) fn lock_areas(&self) -> Guard<'_, FreeAreas> {
        self.areas.lock()
    }

    /// Counters of its lock.
    #[must_use]
    pub fn lock_stats(&self) -> LockStats {
        self.areas.stats()
    }

    /// Gives the zone the first `frames` frames of pageblocks that were taken for it.
    pub(super) fn add_frames(&self, memory: &Memory, first: PageblockIndex, frames: u32) {
        let mut areas = self.areas.lock();
        let tag = PageblockTag::new(self.node, MigrateType::Movable);
        for index in first.0..first.0 + frames.div_ceil(PAGEBLOCK_FRAMES) {
            memory.pageblocks().at(PageblockIndex(index)).set_tag(tag);
        }
        let (mut pfn, end) = (first.first(), first.first().plus(frames));
        while pfn < end {
            let fits = (end.0 - pfn.0).ilog2().min(pfn.0.trailing_zeros());
            let order = Order::new(fits.min(u32::from(MAX_ORDER)) as u8);
            areas.put(memory, Block { pfn, order, zeroed: true }, End::Tail);
            pfn = pfn.plus(order.frames());
        }
        self.managed.store(self.managed() + frames, Relaxed);
        self.free.store(areas.free(), Relaxed);
    }

    pub(super) fn take(
        &self,
        memory: &Memory,
        order: Order,
        of: MigrateType,
        count: u32,
        destination: Destination,
        give: &mut impl FnMut(Pfn, bool),
    ) -> u32 {
        let mut areas = self.areas.lock();
        let mut taken = 0;
        while taken < count {
            let block = MigrateType::ALL.iter().find_map(|from| {
                let from = if *from == MigrateType::Unmovable { of } else { *from };
                areas.take_smallest(memory, order, from)
            });
            let Some(Block { pfn, zeroed, .. }) = block else { break };
            if of == MigrateType::Movable {
                for_each_part(memory, pfn, order, Pageblock::mark_movable);
            }
            memory.frames().set_state(pfn, destination.state(order, zeroed));
            give(pfn, zeroed);
            taken += 1;
        }
        self.free.store(areas.free(), Relaxed);
        taken
    }

    /// Puts blocks back under one acquisition; returns the number of frames.
    pub(super) fn put(&self, memory: &Memory, blocks: impl Iterator<Item = Block>) -> u32 {
        let mut areas = self.areas.lock();
        let mut frames = 0;
        for block in blocks {
            areas.put(memory, block, End::Head);
            frames += block.order.frames();
        }
        self.free.store(areas.free(), Relaxed);
        frames
    }

    /// Takes more pageblocks from the reservation. Returns whether the zone has grown.
    pub(super) fn grow(&self, memory: &Memory, _budget: &Budget, _order: Order) -> bool {
        if !self.grows {
            return false;
        }
        let mut growth = self.growth.lock();
        let mut step = growth.step;
        while step >= GROWTH_UNIT {
            if let Ok(first) = memory.take_for_zone(step) {
                self.add_frames(memory, first, step * PAGEBLOCK_FRAMES);
                growth.step = (step * 2).min(GROWTH_MAX);
                return true;
            }
            step /= 2;
        }
        false
    }
}
