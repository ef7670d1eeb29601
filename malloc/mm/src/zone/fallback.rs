//! Fallback: a request whose migratetype has no block left claims whole pageblocks of another type,
//! or if that fails, steals single blocks (Linux 6.15+ `__rmqueue`).

use super::block::{Block, ORDERS, free_blocks};
use super::free_area::smallest_filled;
use super::huge;
use super::zone::Locked;
use crate::frame::{
    End, Memory, MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, PageblockIndex,
    PageblockTag, Pfn,
};

/// The last resort that the requests of this critical section have needed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Normal,
    /// No pageblock was left to claim, so single blocks are stolen.
    Steal,
}

/// The other types, in the order in which requests try them.
const fn fallbacks(of: MigrateType) -> [MigrateType; 2] {
    use MigrateType::{Movable, Reclaimable, Unmovable};
    match of {
        Unmovable => [Reclaimable, Movable],
        Reclaimable => [Unmovable, Movable],
        Movable | MigrateType::HighAtomic => [Reclaimable, Unmovable],
    }
}

/// Returns whether a request of type `of` claims the whole pageblock of a block of `order`: always
/// for a large block, and if `of` is not movable, as its stolen blocks would mix with other types.
fn worth_claiming(order: Order, of: MigrateType) -> bool {
    order.get() >= PAGEBLOCK_ORDER / 2
        || matches!(of, MigrateType::Unmovable | MigrateType::Reclaimable)
}

impl Locked<'_> {
    #[inline]
    pub(super) fn take_any(
        &mut self,
        order: Order,
        of: MigrateType,
        mode: &mut Mode,
    ) -> Option<Block> {
        if *mode == Mode::Normal
            && let Some(block) = self.take_smallest(order, of)
        {
            return Some(block);
        }
        self.take_fallback(order, of, mode)
    }

    #[cold]
    fn take_fallback(&mut self, order: Order, of: MigrateType, mode: &mut Mode) -> Option<Block> {
        if *mode == Mode::Normal
            && let Some(block) = self.claim(order, of)
        {
            return Some(block);
        }
        let block = self.steal(order, of)?;
        *mode = Mode::Steal;
        Some(block)
    }

    /// Claims the pageblock of the largest free block of another type, and takes a block from it.
    fn claim(&mut self, order: Order, of: MigrateType) -> Option<Block> {
        for current in (order.index()..ORDERS).rev().map(|order| Order::new(order as u8)) {
            if !worth_claiming(current, of) {
                break;
            }
            let areas = &self.state.areas;
            let mut from = fallbacks(of).into_iter().filter(|from| areas.nr(current, *from) != 0);
            let Some(from) = from.next() else { continue };
            let Some(pfn) = areas.first(self.memory, current, from) else { continue };
            if let Some(block) = self.claim_at(pfn, current, order, of) {
                return Some(block);
            }
        }
        None
    }

    /// Claims the pageblock of a free block if the block fills it, or if at least half of its
    /// frames are free, or in use by requests that are as movable as `of` is.
    fn claim_at(
        &mut self,
        pfn: Pfn,
        current: Order,
        order: Order,
        of: MigrateType,
    ) -> Option<Block> {
        if current.get() >= PAGEBLOCK_ORDER {
            self.claim_whole(pfn, current, of);
            return Some(self.take_from(pfn, current, order));
        }
        let pageblock = self.memory.pageblocks().of(pfn);
        if pageblock.longest_extent() > 0 {
            // The pageblock's extents become blocks, which may serve the request without a claim.
            self.flush_pageblock(pfn.pageblock());
            return None;
        }
        self.zone.marks.raise_boost(self.zone.managed());
        let (free, movable) = (pageblock.free(), pageblock.nr_movable());
        let alike = match (of, pageblock.migratetype()) {
            (MigrateType::Movable, _) => movable,
            (_, MigrateType::Movable) => PAGEBLOCK_FRAMES - free - movable,
            _ => 0,
        };
        if free + alike < PAGEBLOCK_FRAMES / 2 {
            return None;
        }
        self.retag(pfn.pageblock(), of);
        self.state.counts.fallbacks.claimed += 1;
        self.take_smallest(order, of)
    }

    /// Claims the pageblocks that a free block fills.
    #[inline(never)]
    fn claim_whole(&mut self, pfn: Pfn, order: Order, of: MigrateType) {
        let old = self.memory.pageblocks().of(pfn).migratetype();
        debug_assert_ne!(old, of, "a type does not fall back to itself");
        let zeroed = self.retag_free(pfn, order, of);
        self.state.counts.fallbacks.claimed += u64::from(order.frames() / PAGEBLOCK_FRAMES);
        if of != MigrateType::Movable {
            huge::claimed(self.zone, self.memory, Block { pfn, order, zeroed }, of);
        }
    }

    /// Takes the smallest suitable block of another type; its pageblock keeps the type.
    #[inline(never)]
    fn steal(&mut self, order: Order, of: MigrateType) -> Option<Block> {
        let areas = &self.state.areas;
        let found = fallbacks(of)
            .into_iter()
            .enumerate()
            .filter_map(|(rank, from)| {
                smallest_filled(areas.filled(), order, from).map(|found| (found, rank, from))
            })
            .min_by_key(|(found, rank, _)| (*found, *rank));
        let (found, _, from) = found?;
        let pfn = areas.first(self.memory, found, from)?;
        self.state.counts.fallbacks.stolen += 1;
        Some(self.take_from(pfn, found, order))
    }

    /// Changes the type of the pageblocks that one free block fills; returns whether the block is
    /// known to be zero.
    fn retag_free(&mut self, pfn: Pfn, order: Order, to: MigrateType) -> bool {
        let memory = self.memory;
        let from = memory.pageblocks().of(pfn).tag();
        let zeroed = self.state.areas.remove(memory, pfn, order, from.migratetype());
        for offset in (0..order.frames()).step_by(PAGEBLOCK_FRAMES as usize) {
            set_type(memory, pfn.plus(offset).pageblock(), to);
        }
        self.state.areas.add(memory, Block { pfn, order, zeroed }, to, End::Tail);
        zeroed
    }

    /// Changes the type of a pageblock that keeps no extents, and moves its free blocks to the
    /// lists of that type. No block may reach into the next pageblock. O(frames of a pageblock).
    pub(super) fn retag(&mut self, index: PageblockIndex, to: MigrateType) {
        let memory = self.memory;
        let from = memory.pageblocks().at(index).migratetype();
        if from == to {
            return;
        }
        debug_assert_eq!(memory.pageblocks().at(index).longest_extent(), 0);
        self.state.areas.move_singles(memory, index, from, to);
        set_type(memory, index, to);
        // The blocks of order 0 have moved already.
        for block in free_blocks(memory, index.first()).filter(|block| block.order != Order::ZERO) {
            self.state.areas.remove(memory, block.pfn, block.order, from);
            if block.order == Order::PAGEBLOCK {
                // The pageblock's old type may have kept the block from merging.
                self.put_block(block, End::Tail);
            } else {
                self.state.areas.add(memory, block, to, End::Tail);
            }
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
