//! The reserve for high-order requests that cannot wait (Linux 4.4+, `MIGRATE_HIGHATOMIC`).
//!
//! Invariant: `reserved` = frames of the zone's pageblocks of type `HighAtomic`.

use super::block::ORDERS;
use super::zone::Locked;
use super::zones::Zones;
use crate::frame::{End, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, PCP_TYPES, Pfn};

/// The reserve grows up to the zone's frames divided by this, rounded up to whole pageblocks.
const MOST: u32 = 100;

impl Zones {
    /// After a high-order atomic request has got a block, puts the block's pageblocks into the
    /// reserve, unless 1 % of the zone is less than a pageblock or is reserved already.
    #[cold]
    #[inline(never)]
    pub fn reserve_high_atomic(&self, node: NodeId, pfn: Pfn, order: Order) {
        let zone = self.of(node);
        let share = zone.managed() / MOST;
        let most = share.next_multiple_of(PAGEBLOCK_FRAMES);
        if share < PAGEBLOCK_FRAMES || zone.reserved_high_atomic() >= most {
            return;
        }
        let mut locked = zone.lock();
        let reserved = zone.reserved_high_atomic();
        let old = self.memory().pageblocks().of(pfn).migratetype();
        if reserved >= most || old.index() >= PCP_TYPES {
            return;
        }
        let mut kept = 0;
        for offset in (0..order.frames()).step_by(PAGEBLOCK_FRAMES as usize) {
            let index = pfn.plus(offset).pageblock();
            locked.flush_pageblock(index);
            locked.retag(index, MigrateType::HighAtomic);
            kept += PAGEBLOCK_FRAMES;
        }
        locked.set_reserved(reserved + kept);
    }

    /// Moves a reserved pageblock that has free memory out of the reserve, to the type `to`; the
    /// last one only if `force` is true. Returns whether a pageblock was moved.
    pub(crate) fn unreserve_high_atomic(&self, node: NodeId, to: MigrateType, force: bool) -> bool {
        let zone = self.of(node);
        if zone.reserved_high_atomic() <= if force { 0 } else { PAGEBLOCK_FRAMES } {
            return false;
        }
        let mut locked = zone.lock();
        let Some((pfn, order)) = locked.first_reserved() else { return false };
        if order > Order::PAGEBLOCK {
            // Two reserved pageblocks had merged, but only one of them is to leave the reserve.
            let lower = locked.take_from(pfn, order, Order::PAGEBLOCK);
            locked.state.areas.add(self.memory(), lower, MigrateType::HighAtomic, End::Head);
        }
        locked.retag(pfn.pageblock(), to);
        locked.set_reserved(zone.reserved_high_atomic() - PAGEBLOCK_FRAMES);
        true
    }
}

impl Locked<'_> {
    fn first_reserved(&self) -> Option<(Pfn, Order)> {
        (0..ORDERS as u8).map(Order::new).find_map(|order| {
            let first = self.state.areas.first(self.memory, order, MigrateType::HighAtomic);
            first.map(|pfn| (pfn, order))
        })
    }
}
