//! The free lists of a zone: one per order and migratetype.
//!
//! Blocks of order >= 1 are linked through the frame table: the link word of the first frame names
//! the next block, that of the second frame the previous one. Free blocks of order 0 are bits in
//! their pageblock, and the list links the pageblocks that have some. Nothing is written into the
//! free memory itself: that would fault purged pages back in.
//!
//! Invariants:
//! * a block on list `(o, t)` is aligned to `2^o`, its first frame's state is `in_zone(o, _)`, and
//!   `t` is the migratetype of its first pageblock
//! * `nr(o, t)` = blocks on list `(o, t)`; bit `16 t + o` of `filled` is set iff it is not 0
//! * `free` = sum of `2^o * nr(o, t)`; `by_type[t]` = the part of it on lists of `t`; `dirty` = the
//!   part of it that is not known to be zero

use super::extents::Extents;
use super::fallback::FallbackCounts;
use super::huge::HugePages;
use crate::frame::{
    FrameState, MAX_ORDER, MIGRATE_TYPES, Memory, MigrateType, Order, PAGEBLOCK_FRAMES,
    PageblockIndex, Pfn,
};

/// Number of orders.
pub const ORDERS: usize = MAX_ORDER as usize + 1;

/// End of a list.
const NIL: u32 = u32::MAX;

/// Which end of a list a block is put at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Taken next.
    Head,
    /// Taken last.
    Tail,
}

/// A block that is, or is about to be, free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its first frame.
    pub pfn: Pfn,
    /// Its size.
    pub order: Order,
    /// Whether every byte is known to be zero.
    pub zeroed: bool,
}

/// One list: of blocks, or at order 0 of pageblocks.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    /// Blocks, also at order 0.
    nr: u32,
}

/// A list's number is `4 * order + migratetype`; 20 of 64 lists are not used, for the sake of an
/// index that needs no check.
const LISTS: usize = 64;
const _: () = assert!(ORDERS * MIGRATE_TYPES <= LISTS);

#[inline(always)]
const fn list_number(order: Order, of: MigrateType) -> usize {
    (order.index() * MIGRATE_TYPES + of.index()) % LISTS
}

/// All lists of a zone and their counts.
pub(super) struct FreeAreas {
    lists: [List; LISTS],
    by_type: [u32; MIGRATE_TYPES],
    dirty: u32,
    filled: u64,
    pub(super) extents: Extents,
    pub(super) fallbacks: FallbackCounts,
    pub(super) huge_pages: HugePages,
}

/// The orders of one migratetype that have free blocks, as bits.
const fn orders_of(filled: u64, migratetype: MigrateType) -> u32 {
    (filled >> (16 * migratetype.index()) & 0xffff) as u32
}

/// The smallest order from `order` on at which `migratetype` has a free block.
#[inline]
pub(super) fn smallest_filled(
    filled: u64,
    order: Order,
    migratetype: MigrateType,
) -> Option<Order> {
    let candidates = orders_of(filled, migratetype) >> order.get();
    (candidates != 0).then(|| Order::new(order.get() + candidates.trailing_zeros() as u8))
}

impl FreeAreas {
    pub(super) const fn new() -> Self {
        Self {
            lists: [List { head: NIL, tail: NIL, nr: 0 }; LISTS],
            by_type: [0; MIGRATE_TYPES],
            dirty: 0,
            filled: 0,
            extents: Extents::new(),
            fallbacks: FallbackCounts { claimed: 0, stolen: 0 },
            huge_pages: HugePages::new(),
        }
    }

    /// Bit `16 t + o` is set iff list `(o, t)` has a block.
    pub(super) fn filled(&self) -> u64 {
        self.filled
    }

    /// Free frames.
    pub(super) fn free(&self) -> u32 {
        self.by_type.iter().sum()
    }

    /// Free frames that are not known to be zero.
    pub(super) fn dirty(&self) -> u32 {
        self.dirty
    }

    /// Free frames on the lists of one migratetype.
    pub(super) fn free_of(&self, migratetype: MigrateType) -> u32 {
        self.by_type[migratetype.index()]
    }

    /// Free blocks of one list.
    pub(super) fn nr(&self, order: Order, migratetype: MigrateType) -> u32 {
        self.lists[list_number(order, migratetype)].nr
    }

    /// The block at the head of a list.
    #[inline]
    pub(super) fn first(&self, memory: &Memory, order: Order, of: MigrateType) -> Option<Pfn> {
        let head = self.lists[list_number(order, of)].head;
        if head == NIL {
            None
        } else if order == Order::ZERO {
            let pageblock = PageblockIndex(head);
            memory.pageblocks().at(pageblock).lowest_single().map(|at| pageblock.first().plus(at))
        } else {
            Some(Pfn(head))
        }
    }

    /// The block at the tail of a list of `order`, which is not 0.
    pub(super) fn last(&self, order: Order, of: MigrateType) -> Option<Pfn> {
        debug_assert!(order > Order::ZERO, "the list of order 0 is one of pageblocks");
        let tail = self.lists[list_number(order, of)].tail;
        (tail != NIL).then_some(Pfn(tail))
    }

    /// The block after `pfn` on its list of `order`, which is not 0.
    pub(super) fn next(memory: &Memory, pfn: Pfn) -> Option<Pfn> {
        let next = memory.frames().link(pfn);
        (next != NIL).then_some(Pfn(next))
    }

    /// The pageblock after `index` on its list of order 0.
    pub(super) fn next_pageblock(memory: &Memory, index: PageblockIndex) -> Option<PageblockIndex> {
        let (next, _) = memory.pageblocks().at(index).links();
        (next != NIL).then_some(PageblockIndex(next))
    }

    /// The first pageblock on the list of order 0.
    pub(super) fn first_pageblock(&self, of: MigrateType) -> Option<PageblockIndex> {
        let head = self.lists[list_number(Order::ZERO, of)].head;
        (head != NIL).then_some(PageblockIndex(head))
    }

    /// Puts a block on the list of `migratetype`. O(1).
    #[inline]
    pub(super) fn add(&mut self, memory: &Memory, block: Block, of: MigrateType, end: End) {
        let Block { pfn, order, zeroed } = block;
        debug_assert!(pfn.is_aligned(order), "misaligned block");
        let pageblock = memory.pageblocks().of(pfn);
        debug_assert_eq!(pageblock.migratetype(), of, "block on the list of another type");
        memory.frames().set_state(pfn, FrameState::in_zone(order, zeroed));
        pageblock.count_freed(order, zeroed);
        self.dirty += if zeroed { 0 } else { order.frames() };
        if order == Order::ZERO {
            if pageblock.add_single(pfn.0 % PAGEBLOCK_FRAMES) == 1 {
                self.link_pageblock(memory, pfn.pageblock(), of, end);
            }
        } else {
            self.link_block(memory, pfn, order, of, end);
        }
        self.count_in(order, of, 1);
    }

    /// Takes a block off the list of `migratetype`. Its state is left for the caller to set. O(1).
    /// Returns whether it is known to be zero.
    #[inline]
    pub(super) fn remove(
        &mut self,
        memory: &Memory,
        pfn: Pfn,
        order: Order,
        of: MigrateType,
    ) -> bool {
        let state = memory.frames().state(pfn);
        debug_assert!(state.is_buddy(order), "block is not free in the zone");
        self.remove_known(memory, Block { pfn, order, zeroed: state.is_zeroed() }, of);
        state.is_zeroed()
    }

    /// [`remove`](Self::remove) where the block's state has been read already.
    #[inline]
    pub(super) fn remove_known(&mut self, memory: &Memory, block: Block, of: MigrateType) {
        let Block { pfn, order, zeroed } = block;
        let pageblock = memory.pageblocks().of(pfn);
        pageblock.count_taken(order, zeroed);
        self.dirty -= if zeroed { 0 } else { order.frames() };
        if order == Order::ZERO {
            if pageblock.remove_single(pfn.0 % PAGEBLOCK_FRAMES) == 0 {
                self.unlink_pageblock(memory, pfn.pageblock(), of);
            }
        } else {
            self.unlink_block(memory, pfn, order, of);
        }
        self.count_out(order, of, 1);
    }

    #[inline]
    pub(super) fn count_in(&mut self, order: Order, of: MigrateType, blocks: u32) {
        self.by_type[of.index()] += blocks << order.get();
        self.lists[list_number(order, of)].nr += blocks;
        self.filled |= 1 << (16 * of.index() + order.index());
    }

    #[inline]
    pub(super) fn count_out(&mut self, order: Order, of: MigrateType, blocks: u32) {
        self.by_type[of.index()] -= blocks << order.get();
        let nr = &mut self.lists[list_number(order, of)].nr;
        *nr -= blocks;
        if *nr == 0 {
            self.filled &= !(1 << (16 * of.index() + order.index()));
        }
    }

    fn link_block(&mut self, memory: &Memory, pfn: Pfn, order: Order, of: MigrateType, end: End) {
        let frames = memory.frames();
        let list = &mut self.lists[list_number(order, of)];
        let (prev, next) = match end {
            End::Head => (NIL, list.head),
            End::Tail => (list.tail, NIL),
        };
        frames.set_link(pfn, next);
        frames.set_link(pfn.plus(1), prev);
        match next {
            NIL => list.tail = pfn.0,
            next => frames.set_link(Pfn(next).plus(1), pfn.0),
        }
        match prev {
            NIL => list.head = pfn.0,
            prev => frames.set_link(Pfn(prev), pfn.0),
        }
    }

    fn unlink_block(&mut self, memory: &Memory, pfn: Pfn, order: Order, of: MigrateType) {
        let frames = memory.frames();
        let list = &mut self.lists[list_number(order, of)];
        let (next, prev) = (frames.link(pfn), frames.link(pfn.plus(1)));
        match next {
            NIL => list.tail = prev,
            next => frames.set_link(Pfn(next).plus(1), prev),
        }
        match prev {
            NIL => list.head = next,
            prev => frames.set_link(Pfn(prev), next),
        }
    }

    pub(super) fn link_pageblock(
        &mut self,
        memory: &Memory,
        index: PageblockIndex,
        of: MigrateType,
        end: End,
    ) {
        let pageblocks = memory.pageblocks();
        let list = &mut self.lists[list_number(Order::ZERO, of)];
        let (prev, next) = match end {
            End::Head => (NIL, list.head),
            End::Tail => (list.tail, NIL),
        };
        pageblocks.at(index).set_next(next);
        pageblocks.at(index).set_prev(prev);
        match next {
            NIL => list.tail = index.0,
            next => pageblocks.at(PageblockIndex(next)).set_prev(index.0),
        }
        match prev {
            NIL => list.head = index.0,
            prev => pageblocks.at(PageblockIndex(prev)).set_next(index.0),
        }
    }

    pub(super) fn unlink_pageblock(
        &mut self,
        memory: &Memory,
        index: PageblockIndex,
        of: MigrateType,
    ) {
        let pageblocks = memory.pageblocks();
        let list = &mut self.lists[list_number(Order::ZERO, of)];
        let (next, prev) = pageblocks.at(index).links();
        match next {
            NIL => list.tail = prev,
            next => pageblocks.at(PageblockIndex(next)).set_prev(prev),
        }
        match prev {
            NIL => list.head = next,
            prev => pageblocks.at(PageblockIndex(prev)).set_next(next),
        }
    }
}
