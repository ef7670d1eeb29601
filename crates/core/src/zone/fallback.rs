//! Where a request is served from when its own migratetype has no block left: claiming whole
//! pageblocks, and stealing single blocks as the last resort (Linux 6.15+ `__rmqueue`).

use super::free_area::{Block, End, FreeAreas, ORDERS, smallest_filled};
use super::watermark::Watermarks;
use crate::frame::{
    KindSet, Memory, MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, PageblockIndex,
    PageblockTag, Pfn,
};

/// How far a series of requests under one hold of the lock has had to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// The request's own lists.
    #[default]
    Normal,
    /// Nothing left to claim either: single blocks of other types.
    Steal,
}

/// How often requests were served from other types' blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FallbackCounts {
    /// Pageblocks claimed: they changed their type.
    pub claimed: u64,
    /// Blocks stolen: their pageblock kept its type.
    pub stolen: u64,
}

/// Other types in the order in which they are tried.
const fn fallbacks(of: MigrateType) -> [MigrateType; 2] {
    use MigrateType::{Movable, Reclaimable, Unmovable};
    match of {
        Unmovable => [Reclaimable, Movable],
        Reclaimable => [Unmovable, Movable],
        Movable | MigrateType::HighAtomic => [Reclaimable, Unmovable],
    }
}

/// Whether a free block of `order` is worth claiming its pageblock for: it is large, or the request
/// would otherwise scatter blocks that never move.
fn worth_claiming(order: Order, of: MigrateType) -> bool {
    order.get() >= PAGEBLOCK_ORDER / 2
        || matches!(of, MigrateType::Unmovable | MigrateType::Reclaimable)
}

/// What taking a block needs to know of the zone beside its lists.
#[derive(Clone, Copy)]
pub(super) struct ZoneView<'a> {
    pub(super) memory: &'a Memory,
    pub(super) marks: &'a Watermarks,
    pub(super) managed: u32,
    pub(super) huge: bool,
    /// Kinds of frames that are touched whole.
    pub(super) touched_whole: &'a KindSet,
}

impl FreeAreas {
    /// Takes a block for a request of type `of` (not the high-order reserve).
    #[inline]
    pub(super) fn take_any(
        &mut self,
        zone: ZoneView<'_>,
        order: Order,
        of: MigrateType,
        mode: &mut Mode,
    ) -> Option<Block> {
        if *mode == Mode::Normal
            && let Some(block) = self.take_smallest(zone.memory, order, of)
        {
            return Some(block);
        }
        self.take_fallback(zone, order, of, mode)
    }

    #[cold]
    fn take_fallback(
        &mut self,
        zone: ZoneView<'_>,
        order: Order,
        of: MigrateType,
        mode: &mut Mode,
    ) -> Option<Block> {
        if *mode == Mode::Normal
            && let Some(block) = self.claim(zone, order, of)
        {
            return Some(block);
        }
        let block = self.steal(zone.memory, order, of)?;
        *mode = Mode::Steal;
        Some(block)
    }

    /// Claims a pageblock of another type, preferring the largest free block, and takes from it.
    fn claim(&mut self, zone: ZoneView<'_>, order: Order, of: MigrateType) -> Option<Block> {
        for current in (order.index()..ORDERS).rev().map(|order| Order::new(order as u8)) {
            if !worth_claiming(current, of) {
                break;
            }
            let mut from = fallbacks(of).into_iter().filter(|from| self.nr(current, *from) != 0);
            let Some(from) = from.next() else { continue };
            let Some(pfn) = self.first(zone.memory, current, from) else { continue };
            if let Some(block) = self.claim_at(zone, pfn, current, order, of) {
                return Some(block);
            }
        }
        None
    }

    /// Claims the pageblock of one free block if the block fills it, or if enough of the pageblock
    /// is free or held by alike requests.
    fn claim_at(
        &mut self,
        zone: ZoneView<'_>,
        pfn: Pfn,
        current: Order,
        order: Order,
        of: MigrateType,
    ) -> Option<Block> {
        if current.get() >= PAGEBLOCK_ORDER {
            let old = zone.memory.pageblocks().of(pfn).migratetype();
            self.retag_free(zone.memory, pfn, current, of);
            debug_assert_ne!(old, of, "a type does not fall back to itself");
            self.fallbacks.claimed += u64::from(current.frames() / PAGEBLOCK_FRAMES);
            if of == MigrateType::Unmovable {
                let fresh = zone.memory.frames().state(pfn).is_zeroed();
                self.huge_pages.claimed(zone, pfn, current, fresh);
            }
            return Some(self.take_from(zone.memory, pfn, current, order));
        }
        if zone.memory.pageblocks().of(pfn).longest_extent() > 0 {
            // What it keeps as extents is on the lists then, and may serve without a claim.
            self.flush_extents(zone.memory, pfn.pageblock());
            return None;
        }
        zone.marks.raise_boost(zone.managed);
        let pageblock = zone.memory.pageblocks().of(pfn);
        let (free, movable) = (pageblock.free(), pageblock.nr_movable());
        let alike = match (of, pageblock.migratetype()) {
            (MigrateType::Movable, _) => movable,
            (_, MigrateType::Movable) => PAGEBLOCK_FRAMES - free - movable,
            _ => 0,
        };
        if free + alike < PAGEBLOCK_FRAMES / 2 {
            return None;
        }
        self.retag(zone.memory, pfn.pageblock(), of);
        self.fallbacks.claimed += 1;
        self.take_smallest(zone.memory, order, of)
    }

    /// Takes the smallest block that another type has; its pageblock keeps its type.
    fn steal(&mut self, memory: &Memory, order: Order, of: MigrateType) -> Option<Block> {
        let found = fallbacks(of)
            .into_iter()
            .enumerate()
            .filter_map(|(rank, from)| {
                smallest_filled(self.filled(), order, from).map(|found| (found, rank, from))
            })
            .min_by_key(|(found, rank, _)| (*found, *rank));
        let (found, _, from) = found?;
        let pfn = self.first(memory, found, from)?;
        self.fallbacks.stolen += 1;
        Some(self.take_from(memory, pfn, found, order))
    }

    /// Moves one free block that fills its pageblocks to another type, pageblocks included.
    pub(super) fn retag_free(&mut self, memory: &Memory, pfn: Pfn, order: Order, to: MigrateType) {
        let from = memory.pageblocks().of(pfn).tag();
        let zeroed = self.remove(memory, pfn, order, from.migratetype());
        for offset in (0..order.frames()).step_by(PAGEBLOCK_FRAMES as usize) {
            set_type(memory, pfn.plus(offset).pageblock(), to);
        }
        self.add(memory, Block { pfn, order, zeroed }, to, End::Tail);
    }

    /// Changes the type of a pageblock that no free block reaches beyond, and moves its free blocks
    /// to the lists of that type. Returns the free frames moved. O(frames of a pageblock).
    pub(super) fn retag(&mut self, memory: &Memory, index: PageblockIndex, to: MigrateType) -> u32 {
        let pageblock = memory.pageblocks().at(index);
        let from = pageblock.migratetype();
        let moved = pageblock.free();
        if from == to {
            return moved;
        }
        self.flush_extents(memory, index);
        let moved = pageblock.free();
        self.move_singles(memory, index, from, to);
        set_type(memory, index, to);
        let mut pfn = index.first();
        let end = pfn.plus(PAGEBLOCK_FRAMES);
        while pfn < end {
            let state = memory.frames().state(pfn);
            let order = if state.is_in_zone() { state.order() } else { Order::ZERO };
            if order != Order::ZERO {
                let zeroed = self.remove(memory, pfn, order, from);
                let block = Block { pfn, order, zeroed };
                if order == Order::PAGEBLOCK {
                    // What kept it apart from its buddy may have been its type.
                    self.put(memory, block, End::Tail);
                } else {
                    self.add(memory, block, to, End::Tail);
                }
            }
            pfn = pfn.plus(order.frames());
        }
        moved
    }

    /// Moves a pageblock's bitmap of single frames from one list to another.
    fn move_singles(
        &mut self,
        memory: &Memory,
        index: PageblockIndex,
        from: MigrateType,
        to: MigrateType,
    ) {
        let singles = memory.pageblocks().at(index).nr_singles();
        if singles != 0 {
            self.unlink_pageblock(memory, index, from);
            self.link_pageblock(memory, index, to, End::Tail);
            self.count_out(Order::ZERO, from, singles);
            self.count_in(Order::ZERO, to, singles);
        }
    }
}

fn set_type(memory: &Memory, index: PageblockIndex, to: MigrateType) {
    let pageblock = memory.pageblocks().at(index);
    let node = pageblock.tag().node();
    debug_assert!(node.is_some(), "pageblock of no zone");
    if let Some(node) = node {
        pageblock.set_tag(PageblockTag::new(node, to));
    }
}
