//! Splitting and merging (kernel: `expand`, `__free_one_page`, Linux 6.x).

use super::free_area::{Block, End, FreeAreas, smallest_filled};
use crate::frame::{
    FrameState, MAX_ORDER, Memory, MigrateType, Order, PAGEBLOCK_FRAMES, PCP_TYPES, Pageblock,
    PageblockTag, Pfn,
};

impl FreeAreas {
    /// Takes the smallest block of `migratetype` that holds `order`, split down to it. O(orders).
    #[inline]
    pub(super) fn take_smallest(
        &mut self,
        memory: &Memory,
        order: Order,
        of: MigrateType,
    ) -> Option<Block> {
        let found = smallest_filled(self.filled(), order, of)?;
        let pfn = self.first(memory, found, of)?;
        Some(self.take_from(memory, pfn, found, order))
    }

    /// Takes the free block at `pfn`, of order `from`, split down to `order`.
    #[inline]
    pub(super) fn take_from(
        &mut self,
        memory: &Memory,
        pfn: Pfn,
        from: Order,
        order: Order,
    ) -> Block {
        let of = memory.pageblocks().of(pfn).migratetype();
        let zeroed = self.remove(memory, pfn, from, of);
        memory.frames().set_state(pfn, FrameState::USED);
        self.expand(memory, Block { pfn, order: from, zeroed }, order, of)
    }

    /// Splits a block that is on no list; the upper half goes to the head of its list at each step,
    /// so that the lowest address is handed out.
    #[inline]
    fn expand(&mut self, memory: &Memory, block: Block, order: Order, of: MigrateType) -> Block {
        let Block { pfn, order: from, zeroed } = block;
        for half in (order.get()..from.get()).rev().map(Order::new) {
            let upper = Block { pfn: pfn.plus(half.frames()), order: half, zeroed };
            self.add(memory, upper, of, End::Head);
        }
        Block { pfn, order, zeroed }
    }

    /// Puts a block back, merged with its free buddies. O(orders).
    ///
    /// From the order of a pageblock on, blocks of different types merge only if both types are
    /// ones that pages move between freely; the lower one's pageblocks take the type of the other.
    #[inline]
    pub(super) fn put(&mut self, memory: &Memory, block: Block, end: End) {
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
            self.remove_known(memory, free, buddy_tag.migratetype());
            frames.set_state(buddy, FrameState::USED);
            zeroed &= free.zeroed;
            pfn = pfn.min(buddy);
            order = Order::new(order.get() + 1);
        }
        let end = if merge_likely(memory, pfn, order) { End::Tail } else { end };
        self.add(memory, Block { pfn, order, zeroed }, tag.migratetype(), end);
    }
}

/// Calls `act` with the part of a block that lies in each of its pageblocks.
#[inline]
pub(super) fn for_each_part(
    memory: &Memory,
    pfn: Pfn,
    order: Order,
    act: impl Fn(&Pageblock, u32, Order),
) {
    let part = order.min(Order::PAGEBLOCK);
    act(memory.pageblocks().of(pfn), pfn.0 % PAGEBLOCK_FRAMES, part);
    if order > Order::PAGEBLOCK {
        act(memory.pageblocks().of(pfn.plus(PAGEBLOCK_FRAMES)), 0, part);
    }
}

/// Whether blocks of two pageblocks of one zone may become one.
pub(super) fn may_merge(one: PageblockTag, other: PageblockTag) -> bool {
    one.node() == other.node()
        && one.migratetype().index() < PCP_TYPES
        && other.migratetype().index() < PCP_TYPES
}

/// Whether the block's own buddy is all that is missing for a still larger one: it had better be
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
