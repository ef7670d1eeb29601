//! Checks of every equation that the zone layer promises. Slow; for tests and `--check` runs.

use super::buddy::may_merge;
use super::free_area::{FreeAreas, ORDERS};
use super::zone::Zone;
use crate::frame::{FrameState, Memory, MigrateType, Order, PAGEBLOCK_FRAMES, PageblockIndex, Pfn};

impl FreeAreas {
    /// Walks every list and compares it with its counts, states and links. O(free blocks).
    ///
    /// # Panics
    /// With the equation that does not hold.
    pub(super) fn validate(&self, memory: &Memory) {
        for of in MigrateType::ALL {
            let mut frames = 0;
            for order in (0..ORDERS as u8).map(Order::new) {
                let nr = match order {
                    Order::ZERO => self.walk_singles(memory, of),
                    _ => self.walk_blocks(memory, order, of),
                };
                assert_eq!(nr, self.nr(order, of), "nr[{}][{of:?}] = blocks listed", order.get());
                let bit = self.filled() >> (16 * of.index() + order.index()) & 1;
                assert_eq!(bit == 1, nr != 0, "filled bit of {of:?}, order {}", order.get());
                frames += nr * order.frames();
            }
            assert_eq!(frames, self.free_of(of), "by_type[{of:?}] = frames listed");
        }
    }

    fn walk_singles(&self, memory: &Memory, of: MigrateType) -> u32 {
        let (mut nr, mut prev) = (0, u32::MAX);
        let mut at = self.first_pageblock(of);
        while let Some(index) = at {
            let pageblock = memory.pageblocks().at(index);
            assert_eq!(pageblock.migratetype(), of, "{index:?} is on the list of another type");
            assert_eq!(pageblock.links().1, prev, "previous link of {index:?}");
            assert_ne!(pageblock.nr_singles(), 0, "{index:?} is listed without a free single");
            nr += pageblock.nr_singles();
            prev = index.0;
            at = Self::next_pageblock(memory, index);
        }
        nr
    }

    fn walk_blocks(&self, memory: &Memory, order: Order, of: MigrateType) -> u32 {
        let (mut nr, mut prev) = (0, u32::MAX);
        let mut at = self.first(memory, order, of);
        while let Some(pfn) = at {
            let tag = memory.pageblocks().of(pfn).tag();
            assert!(pfn.is_aligned(order), "{pfn:?} is misaligned for order {}", order.get());
            assert_eq!(tag.migratetype(), of, "{pfn:?} is on the list of another type");
            assert!(memory.frames().state(pfn).is_buddy(order), "state of listed {pfn:?}");
            assert_eq!(memory.frames().link(pfn.plus(1)), prev, "previous link of {pfn:?}");
            nr += 1;
            prev = pfn.0;
            at = Self::next(memory, pfn);
        }
        nr
    }
}

/// Frames of a zone by what their states say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCensus {
    /// Frames of free blocks in the zone.
    pub in_zone: u32,
    /// Frames of blocks on per-CPU lists.
    pub in_pcp: u32,
}

impl Zone {
    /// Checks lists against counts, and counts against the states of all frames. O(frames). Other
    /// threads may use the zone meanwhile only if none moves blocks to or from per-CPU lists.
    ///
    /// # Panics
    /// With the equation that does not hold.
    pub fn validate(&self, memory: &Memory) -> StateCensus {
        let inside = self.lock();
        let areas = &inside.areas;
        areas.validate(memory);
        areas.extents.validate(memory);
        let mut census = StateCensus::default();
        let (mut dirty, mut reserved, mut kept) = (0, 0, 0);
        for index in (0..memory.pageblocks().count()).map(PageblockIndex) {
            if memory.pageblocks().at(index).tag().node() == Some(self.node()) {
                census_of(memory, index, &mut census);
                let pageblock = memory.pageblocks().at(index);
                dirty += pageblock.dirty();
                kept += pageblock.extents().count();
                let high_atomic = pageblock.migratetype() == MigrateType::HighAtomic;
                reserved += if high_atomic { PAGEBLOCK_FRAMES } else { 0 };
            }
        }
        assert_eq!(census.in_zone, areas.free(), "frames free by state = frames listed");
        assert_eq!(dirty, areas.dirty(), "dirty frames of pageblocks = dirty frames listed");
        assert_eq!(reserved, self.reserved_high_atomic(), "frames of HighAtomic pageblocks");
        assert_eq!(kept, areas.extents.free, "frames kept as extents = bits of all pageblocks");
        let free = areas.free() + kept;
        assert_eq!(self.free(), free, "the free count that is read without the lock");
        assert!(free + census.in_pcp <= self.managed(), "free + in_pcp <= managed");
        census
    }
}

fn census_of(memory: &Memory, index: PageblockIndex, census: &mut StateCensus) {
    let pageblock = memory.pageblocks().at(index);
    let (mut free, mut dirty, mut singles) = (0, 0, 0);
    let (extents, dirty_extents) = (pageblock.extents(), pageblock.dirty_extents());
    for offset in 0..PAGEBLOCK_FRAMES {
        if dirty_extents.count_in(offset, 1) == 1 {
            assert_eq!(extents.count_in(offset, 1), 1, "dirty frame {offset} of {index:?} is kept");
        }
        let pfn: Pfn = index.first().plus(offset);
        let state = memory.frames().state(pfn);
        let single = state.is_buddy(Order::ZERO);
        assert_eq!(pageblock.is_single(offset), single, "single bit and state of {pfn:?}");
        singles += u32::from(single);
        if extents.count_in(offset, 1) == 1 {
            assert_eq!(state, FrameState::USED, "state of {pfn:?}, which is kept as an extent");
            assert!(pageblock.is_movable(offset), "{pfn:?} is kept as an extent, so movable");
        }
        if state.is_in_zone() {
            assert!(!should_have_merged(memory, pfn), "{pfn:?} and its buddy are both free");
            free += state.order().frames();
            dirty += if state.is_zeroed() { 0 } else { state.order().frames() };
        } else if state.is_in_pcp() {
            census.in_pcp += state.order().frames();
        }
    }
    assert_eq!(pageblock.nr_singles(), singles, "nr_singles of {index:?}");
    assert_eq!(pageblock.free(), free, "free frames of {index:?}");
    assert_eq!(pageblock.dirty(), dirty, "dirty frames of {index:?}");
    census.in_zone += free;
}

/// Whether the buddy of a free block is free as well, although nothing keeps them apart.
fn should_have_merged(memory: &Memory, pfn: Pfn) -> bool {
    let order = memory.frames().state(pfn).order();
    if order == Order::MAX {
        return false;
    }
    let buddy = pfn.buddy(order);
    let tag = |pfn| memory.pageblocks().of(pfn).tag();
    let alike = tag(pfn) == tag(buddy) || may_merge(tag(pfn), tag(buddy));
    memory.frames().state(buddy).is_buddy(order) && alike
}
