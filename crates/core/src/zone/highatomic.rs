//! The reserve for high-order requests that cannot wait (Linux 4.4+, `MIGRATE_HIGHATOMIC`).
//!
//! Invariant: `reserved` = frames of the zone's pageblocks of type `HighAtomic`.

use super::free_area::{End, FreeAreas};
use super::zone::Zone;
use crate::frame::{Memory, MigrateType, Order, PAGEBLOCK_FRAMES, PCP_TYPES, Pfn};
use quarry_sys::primitive::Ordering::Relaxed;

/// The reserve is at most this part of the zone.
const MOST: u32 = 100;

impl Zone {
    /// Keeps the pageblock of a block that a high-order atomic request just got for its like. Does
    /// nothing where 1 % of the zone is less than a pageblock, or is reserved already.
    pub(crate) fn reserve_high_atomic(&self, memory: &Memory, pfn: Pfn, order: Order) {
        let share = self.managed() / MOST;
        let most = share.next_multiple_of(PAGEBLOCK_FRAMES);
        if share < PAGEBLOCK_FRAMES || self.reserved_high_atomic() >= most {
            return;
        }
        let mut inside = self.lock();
        let areas = &mut inside.areas;
        let reserved = self.reserved_high_atomic();
        let old = memory.pageblocks().of(pfn).migratetype();
        if reserved >= most || old.index() >= PCP_TYPES {
            return;
        }
        let mut kept = 0;
        for offset in (0..order.frames()).step_by(PAGEBLOCK_FRAMES as usize) {
            let pageblock = pfn.plus(offset).pageblock();
            areas.retag(memory, pageblock, MigrateType::HighAtomic);
            kept += PAGEBLOCK_FRAMES;
        }
        self.reserved.store(reserved + kept, Relaxed);
        self.publish(areas);
    }

    /// Gives a reserved pageblock that has free memory to `to`. Without `force` the last one stays.
    /// Returns whether free memory was moved.
    pub(crate) fn unreserve_high_atomic(
        &self,
        memory: &Memory,
        to: MigrateType,
        force: bool,
    ) -> bool {
        if self.reserved_high_atomic() <= if force { 0 } else { PAGEBLOCK_FRAMES } {
            return false;
        }
        let mut inside = self.lock();
        let areas = &mut inside.areas;
        let Some((pfn, order)) = first_reserved(areas, memory) else { return false };
        if order > Order::PAGEBLOCK {
            // Two reserved pageblocks have merged, and only one is to go.
            let lower = areas.take_from(memory, pfn, order, Order::PAGEBLOCK);
            areas.add(memory, lower, MigrateType::HighAtomic, End::Head);
        }
        areas.retag(memory, pfn.pageblock(), to);
        self.reserved.store(self.reserved_high_atomic() - PAGEBLOCK_FRAMES, Relaxed);
        self.publish(areas);
        true
    }

    /// Frames of pageblocks in the reserve, free or not.
    #[must_use]
    pub fn reserved_high_atomic(&self) -> u32 {
        self.reserved.load(Relaxed)
    }
}

fn first_reserved(areas: &FreeAreas, memory: &Memory) -> Option<(Pfn, Order)> {
    (0..super::ORDERS as u8).map(Order::new).find_map(|order| {
        areas.first(memory, order, MigrateType::HighAtomic).map(|pfn| (pfn, order))
    })
}
