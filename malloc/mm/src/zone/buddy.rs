//! Splitting and merging (kernel: `expand`, `__free_one_page`, Linux 6.x).

use super::block::{Block, for_each_part};
use super::free_area::smallest_filled;
use super::zone::Locked;
use crate::frame::{
    End, FrameState, MAX_ORDER, Memory, MigrateType, Order, PCP_TYPES, Pageblock, PageblockTag, Pfn,
};

impl Locked<'_> {
    /// Takes the smallest block of type `of` that is large enough, split down to `order`.
    /// O(orders).
    #[inline]
    pub(super) fn take_smallest(&mut self, order: Order, of: MigrateType) -> Option<Block> {
        let found = smallest_filled(self.state.areas.filled(), order, of)?;
        let pfn = self.state.areas.first(self.memory, found, of)?;
        Some(self.take_from(pfn, found, order))
    }

    /// Takes up to `most` blocks of `order`, lowest addresses first. They come from the smallest
    /// block of type `of` that is large enough, or if its order is 0, from its pageblock. `give`
    /// receives each block and whether it is known to be zero, and sets its state. Returns how many
    /// it took. O(orders + blocks).
    #[inline(never)]
    pub(super) fn take_run(
        &mut self,
        order: Order,
        of: MigrateType,
        most: u32,
        mut give: impl FnMut(Pfn, bool),
    ) -> u32 {
        let (memory, areas) = (self.memory, &mut self.state.areas);
        let Some(found) = smallest_filled(areas.filled(), order, of) else { return 0 };
        if found == Order::ZERO {
            return areas.take_singles(memory, of, most, give);
        }
        let Some(pfn) = areas.first(memory, found, of) else { return 0 };
        let count = most.min(1 << (found.get() - order.get()));
        let frames = count << order.get();
        let zeroed = match frames == found.frames() {
            true => areas.remove(memory, pfn, found, of),
            false => areas.take_front(memory, (pfn, found), frames, of),
        };
        (0..count).for_each(|number| give(pfn.plus(number << order.get()), zeroed));
        count
    }

    /// Takes the front of the free block at `pfn`, of order `from`, as a block of `order`.
    #[inline]
    pub(super) fn take_from(&mut self, pfn: Pfn, from: Order, order: Order) -> Block {
        let of = self.memory.pageblocks().of(pfn).migratetype();
        let zeroed = match from == order {
            true => self.state.areas.remove(self.memory, pfn, order, of),
            false => self.state.areas.take_front(self.memory, (pfn, from), order.frames(), of),
        };
        self.memory.frames().set_state(pfn, FrameState::USED);
        Block { pfn, order, zeroed }
    }

    /// Takes a free block off the list of type `of`. Returns whether it is known to be zero.
    #[inline]
    pub(super) fn take_off(&mut self, pfn: Pfn, order: Order, of: MigrateType) -> bool {
        let zeroed = self.state.areas.remove(self.memory, pfn, order, of);
        self.memory.frames().set_state(pfn, FrameState::USED);
        zeroed
    }

    /// Puts a block back, merged with its free buddies. O(orders).
    ///
    /// A block of a pageblock or more also merges with a buddy of another type (except the
    /// high-order reserve). The buddy's pageblocks then take the block's type.
    #[inline]
    pub(super) fn put_block(&mut self, block: Block, end: End) {
        let (memory, areas) = (self.memory, &mut self.state.areas);
        let Block { mut pfn, mut order, mut zeroed } = block;
        let frames = memory.frames();
        let tag = memory.pageblocks().of(pfn).tag();
        for_each_part(memory, pfn, order, Pageblock::clear_movable);
        frames.set_state(pfn, FrameState::USED);
        // Buddies smaller than a pageblock lie in one pageblock: one call of `uncount` is enough.
        let (of, mut merged, mut dirty) = (tag.migratetype(), 0, 0);
        while order < Order::PAGEBLOCK {
            let buddy = pfn.buddy(order);
            let state = frames.state(buddy);
            if !state.is_buddy(order) {
                break;
            }
            let free = Block { pfn: buddy, order, zeroed: state.is_zeroed() };
            areas.unlink(memory, buddy, order, of);
            frames.set_state(buddy, FrameState::USED);
            merged += order.frames();
            dirty += free.dirty();
            zeroed &= free.zeroed;
            pfn = pfn.min(buddy);
            order = Order::new(order.get() + 1);
        }
        if merged > 0 {
            areas.uncount(memory, pfn, merged, dirty, of);
        }
        while order >= Order::PAGEBLOCK && order < Order::MAX {
            let buddy = pfn.buddy(order);
            let state = frames.state(buddy);
            let buddy_tag = memory.pageblocks().of(buddy).tag();
            if !state.is_buddy(order) || buddy_tag != tag && !may_merge(tag, buddy_tag) {
                break;
            }
            memory.pageblocks().of(buddy).set_tag(tag);
            zeroed &= areas.remove(memory, buddy, order, buddy_tag.migratetype());
            frames.set_state(buddy, FrameState::USED);
            pfn = pfn.min(buddy);
            order = Order::new(order.get() + 1);
        }
        let end = if merge_likely(memory, pfn, order) { End::Tail } else { end };
        areas.add(memory, Block { pfn, order, zeroed }, of, end);
    }
}

/// Returns whether two pageblocks belong to one zone, and neither is in the high-order reserve.
pub(super) fn may_merge(one: PageblockTag, other: PageblockTag) -> bool {
    one.node() == other.node()
        && one.migratetype().index() < PCP_TYPES
        && other.migratetype().index() < PCP_TYPES
}

/// Returns whether a block of four times the size would form as soon as this block's buddy became
/// free. If so, this block is handed out late (`buddy_merge_likely`, Linux 6.x).
#[inline]
fn merge_likely(memory: &Memory, pfn: Pfn, order: Order) -> bool {
    if order.get() >= MAX_ORDER - 1 {
        return false;
    }
    let above = Order::new(order.get() + 1);
    let higher = pfn.align_down(above).buddy(above);
    memory.frames().state(higher).is_buddy(above)
}
