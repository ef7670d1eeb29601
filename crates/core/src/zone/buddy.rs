//! Splitting and merging (kernel: `expand`, `__free_one_page`, Linux 6.x).

use super::block::{Block, for_each_part};
use super::free_area::smallest_filled;
use super::zone::Locked;
use crate::frame::{
    End, FrameState, MAX_ORDER, Memory, MigrateType, Order, PCP_TYPES, Pageblock, PageblockTag, Pfn,
};

impl Locked<'_> {
    /// Takes the smallest block of `migratetype` that holds `order`, split down to it. O(orders).
    #[inline]
    pub(super) fn take_smallest(&mut self, order: Order, of: MigrateType) -> Option<Block> {
        let found = smallest_filled(self.state.areas.filled(), order, of)?;
        let pfn = self.state.areas.first(self.memory, found, of)?;
        Some(self.take_from(pfn, found, order))
    }

    /// Takes the free block at `pfn`, of order `from`, split down to `order`.
    #[inline]
    pub(super) fn take_from(&mut self, pfn: Pfn, from: Order, order: Order) -> Block {
        let of = self.memory.pageblocks().of(pfn).migratetype();
        let zeroed = self.take_off(pfn, from, of);
        self.expand(Block { pfn, order: from, zeroed }, order, of)
    }

    /// Takes a free block off the list of `migratetype`. Returns whether it is known to be zero.
    #[inline]
    pub(super) fn take_off(&mut self, pfn: Pfn, order: Order, of: MigrateType) -> bool {
        let zeroed = self.state.areas.remove(self.memory, pfn, order, of);
        self.memory.frames().set_state(pfn, FrameState::USED);
        zeroed
    }

    /// Splits a block that is on no list. Each step puts the upper half at the head of its list, so
    /// that the lowest address is handed out.
    #[inline]
    fn expand(&mut self, block: Block, order: Order, of: MigrateType) -> Block {
        let Block { pfn, order: from, zeroed } = block;
        for half in (order.get()..from.get()).rev().map(Order::new) {
            let upper = Block { pfn: pfn.plus(half.frames()), order: half, zeroed };
            self.state.areas.add(self.memory, upper, of, End::Head);
        }
        Block { pfn, order, zeroed }
    }

    /// Puts a block back, merged with its free buddies. O(orders).
    ///
    /// From the order of a pageblock on, blocks of different types merge only if pages move freely
    /// between both types; the buddy's pageblocks take the type of the block.
    #[inline]
    pub(super) fn put_block(&mut self, block: Block, end: End) {
        let (memory, areas) = (self.memory, &mut self.state.areas);
        let Block { mut pfn, mut order, mut zeroed } = block;
        let frames = memory.frames();
        let tag = memory.pageblocks().of(pfn).tag();
        for_each_part(memory, pfn, order, Pageblock::clear_movable);
        frames.set_state(pfn, FrameState::USED);
        while order < Order::MAX {
            let buddy = pfn.buddy(order);
            let state = frames.state(buddy);
            if !state.is_buddy(order) {
                break;
            }
            // Below the order of a pageblock the buddy lies in the same one.
            let buddy_tag =
                if order < Order::PAGEBLOCK { tag } else { memory.pageblocks().of(buddy).tag() };
            if buddy_tag != tag {
                if !may_merge(tag, buddy_tag) {
                    break;
                }
                memory.pageblocks().of(buddy).set_tag(tag);
            }
            let free = Block { pfn: buddy, order, zeroed: state.is_zeroed() };
            areas.remove_known(memory, free, buddy_tag.migratetype());
            frames.set_state(buddy, FrameState::USED);
            zeroed &= free.zeroed;
            pfn = pfn.min(buddy);
            order = Order::new(order.get() + 1);
        }
        let end = if merge_likely(memory, pfn, order) { End::Tail } else { end };
        areas.add(memory, Block { pfn, order, zeroed }, tag.migratetype(), end);
    }
}

/// Returns whether free blocks of two pageblocks may merge: both are of one zone, and pages move
/// freely between their types.
pub(super) fn may_merge(one: PageblockTag, other: PageblockTag) -> bool {
    one.node() == other.node()
        && one.migratetype().index() < PCP_TYPES
        && other.migratetype().index() < PCP_TYPES
}

/// Returns whether only the block's own buddy is missing for a still larger block. Such a block is
/// handed out late (`buddy_merge_likely`, Linux 6.x).
#[inline]
fn merge_likely(memory: &Memory, pfn: Pfn, order: Order) -> bool {
    if order.get() >= MAX_ORDER - 1 {
        return false;
    }
    let above = Order::new(order.get() + 1);
    let higher = pfn.align_down(above).buddy(above);
    memory.frames().state(higher).is_buddy(above)
}
// x
