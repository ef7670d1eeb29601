//! The free lists of a zone: one per order and migratetype.
//!
//! The frame table links blocks of order >= 1. Free blocks of order 0 are bits in their pageblock,
//! and a list links the pageblocks that have some. Nothing is written into the free memory itself,
//! because a write would fault purged pages in.
//!
//! Invariants:
//! * a block on list `(o, t)` is aligned to `2^o`, its first frame's state is `in_zone(o, _)`, and
//!   `t` is the migratetype of its first pageblock
//! * `nr(o, t)` = blocks on list `(o, t)`; bit `16 t + o` of `filled` is set iff it is not 0
//! * `free` = sum of `2^o * nr(o, t)`; `by_type[t]` = the part of `free` on lists of `t`; `dirty` =
//!   the part of `free` that is not known to be zero

use super::block::{Block, ORDERS, largest_blocks};
use crate::frame::{
    End, FrameState, List, MIGRATE_TYPES, Memory, MigrateType, Order, PAGEBLOCK_FRAMES,
    PageblockIndex, Pfn,
};
use quarry_sys::broken::{Broken, Check};

struct Area {
    /// Empty for order 0: `singles` links the pageblocks with such blocks, and `nr` counts these.
    blocks: List<Pfn>,
    nr: u32,
}

/// List `(o, t)` has number `4 * o + t`; 20 of 64 are unused, so that an index needs no check.
const LISTS: usize = 64;
const _: () = assert!(ORDERS * MIGRATE_TYPES <= LISTS);

#[inline(always)]
const fn list_number(order: Order, of: MigrateType) -> usize {
    (order.index() * MIGRATE_TYPES + of.index()) % LISTS
}

pub(super) struct FreeAreas {
    areas: [Area; LISTS],
    singles: [List<PageblockIndex>; MIGRATE_TYPES],
    by_type: [u32; MIGRATE_TYPES],
    dirty: u32,
    filled: u64,
}

const fn orders_of(filled: u64, migratetype: MigrateType) -> u32 {
    (filled >> (16 * migratetype.index()) & 0xffff) as u32
}

/// The smallest order, from `order` on, of which `migratetype` has a free block.
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
            areas: [const { Area { blocks: List::new(), nr: 0 } }; LISTS],
            singles: [const { List::new() }; MIGRATE_TYPES],
            by_type: [0; MIGRATE_TYPES],
            dirty: 0,
            filled: 0,
        }
    }

    #[inline]
    pub(super) fn filled(&self) -> u64 {
        self.filled
    }

    #[inline]
    pub(super) fn free(&self) -> u32 {
        self.by_type.iter().sum()
    }

    #[inline]
    pub(super) fn dirty(&self) -> u32 {
        self.dirty
    }

    #[inline]
    pub(super) fn free_of(&self, migratetype: MigrateType) -> u32 {
        self.by_type[migratetype.index()]
    }

    #[inline]
    pub(super) fn nr(&self, order: Order, migratetype: MigrateType) -> u32 {
        self.areas[list_number(order, migratetype)].nr
    }

    #[inline]
    pub(super) fn first(&self, memory: &Memory, order: Order, of: MigrateType) -> Option<Pfn> {
        if order != Order::ZERO {
            return self.areas[list_number(order, of)].blocks.first();
        }
        let pageblock = self.singles[of.index()].first()?;
        memory.pageblocks().at(pageblock).lowest_single().map(|at| pageblock.first().plus(at))
    }

    pub(super) fn last(&self, order: Order, of: MigrateType) -> Option<Pfn> {
        debug_assert!(order > Order::ZERO, "the list of order 0 is one of pageblocks");
        self.areas[list_number(order, of)].blocks.last()
    }

    #[inline]
    pub(super) fn add(&mut self, memory: &Memory, block: Block, of: MigrateType, end: End) {
        let (frames, dirty) = (block.order.frames(), block.dirty());
        self.link(memory, block, of, end);
        memory.pageblocks().of(block.pfn).count_freed(frames, dirty);
        self.by_type[of.index()] += frames;
        self.dirty += dirty;
    }

    /// Takes a block off the list of type `of`; the caller sets its state. Returns whether the
    /// block is known to be zero. O(1).
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
        let block = Block { pfn, order, zeroed: state.is_zeroed() };
        self.unlink(memory, pfn, order, of);
        self.uncount(memory, pfn, order.frames(), block.dirty(), of);
        state.is_zeroed()
    }

    /// Takes the first `frames` frames of a free block, but not all of it. The other frames stay
    /// free, as the largest blocks that they form. The caller sets the state of the taken frames.
    /// Returns whether the block is known to be zero. O(orders). (Splitting by halves and counting
    /// each half took twice as long.)
    #[inline]
    pub(super) fn take_front(
        &mut self,
        memory: &Memory,
        (pfn, order): (Pfn, Order),
        frames: u32,
        of: MigrateType,
    ) -> bool {
        let state = memory.frames().state(pfn);
        debug_assert!(state.is_buddy(order), "block is not free in the zone");
        let zeroed = state.is_zeroed();
        let rest = largest_blocks(pfn.plus(frames), order.frames() - frames)
            .map(|(pfn, order)| Block { pfn, order, zeroed });
        self.unlink(memory, pfn, order, of);
        if order > Order::PAGEBLOCK {
            // The other frames may lie in two pageblocks, each of which counts its own part.
            let whole = Block { pfn, order, zeroed };
            self.uncount(memory, pfn, order.frames(), whole.dirty(), of);
            rest.for_each(|block| self.add(memory, block, of, End::Head));
        } else {
            rest.for_each(|block| self.link(memory, block, of, End::Head));
            self.uncount(memory, pfn, frames, if zeroed { 0 } else { frames }, of);
        }
        zeroed
    }

    /// Takes up to `most` blocks of order 0 from the first pageblock that has any; returns how
    /// many. `give` gets each, and whether it is known to be zero, and sets its state. O(blocks).
    #[inline(never)]
    pub(super) fn take_singles(
        &mut self,
        memory: &Memory,
        of: MigrateType,
        most: u32,
        mut give: impl FnMut(Pfn, bool),
    ) -> u32 {
        let Some(index) = self.singles[of.index()].first() else { return 0 };
        let (pageblock, mut dirty) = (memory.pageblocks().at(index), 0);
        let taken = pageblock.take_singles(most, |at| {
            let pfn = index.first().plus(at);
            let state = memory.frames().state(pfn);
            debug_assert!(state.is_buddy(Order::ZERO), "block is not free in the zone");
            dirty += u32::from(!state.is_zeroed());
            give(pfn, state.is_zeroed());
        });
        if pageblock.nr_singles() == 0 {
            self.singles[of.index()].remove(&memory.pageblocks().single_links(), index);
        }
        self.less(Order::ZERO, of, taken);
        self.uncount(memory, index.first(), taken, dirty, of);
        taken
    }

    /// Puts a block on its list and sets its state, but does not count its frames.
    #[inline]
    fn link(&mut self, memory: &Memory, block: Block, of: MigrateType, end: End) {
        let Block { pfn, order, zeroed } = block;
        debug_assert!(pfn.is_aligned(order), "misaligned block");
        let pageblock = memory.pageblocks().of(pfn);
        debug_assert_eq!(pageblock.migratetype(), of, "block on the list of another type");
        memory.frames().set_state(pfn, FrameState::in_zone(order, zeroed));
        if order == Order::ZERO {
            if pageblock.add_single(pfn.0 % PAGEBLOCK_FRAMES) == 1 {
                let links = memory.pageblocks().single_links();
                self.singles[of.index()].add(&links, pfn.pageblock(), end);
            }
        } else {
            self.areas[list_number(order, of)].blocks.add(memory.frames(), pfn, end);
        }
        self.more(order, of, 1);
    }

    /// Takes a block off its list, but does not [`uncount`](Self::uncount) its frames.
    #[inline]
    pub(super) fn unlink(&mut self, memory: &Memory, pfn: Pfn, order: Order, of: MigrateType) {
        if order == Order::ZERO {
            if memory.pageblocks().of(pfn).remove_single(pfn.0 % PAGEBLOCK_FRAMES) == 0 {
                let links = memory.pageblocks().single_links();
                self.singles[of.index()].remove(&links, pfn.pageblock());
            }
        } else {
            self.areas[list_number(order, of)].blocks.remove(memory.frames(), pfn);
        }
        self.less(order, of, 1);
    }

    /// Subtracts `frames` frames of blocks that left their list, and began in the pageblock of
    /// `pfn`, from the counts of pageblock and zone. `dirty` of them are not known to be zero.
    #[inline]
    pub(super) fn uncount(
        &mut self,
        memory: &Memory,
        pfn: Pfn,
        frames: u32,
        dirty: u32,
        of: MigrateType,
    ) {
        memory.pageblocks().of(pfn).count_taken(frames, dirty);
        self.by_type[of.index()] -= frames;
        self.dirty -= dirty;
    }

    pub(super) fn move_singles(
        &mut self,
        memory: &Memory,
        index: PageblockIndex,
        from: MigrateType,
        to: MigrateType,
    ) {
        let singles = memory.pageblocks().at(index).nr_singles();
        if singles != 0 {
            let links = memory.pageblocks().single_links();
            self.singles[from.index()].remove(&links, index);
            self.singles[to.index()].push_back(&links, index);
            self.less(Order::ZERO, from, singles);
            self.more(Order::ZERO, to, singles);
            self.by_type[from.index()] -= singles;
            self.by_type[to.index()] += singles;
        }
    }

    #[inline]
    fn more(&mut self, order: Order, of: MigrateType, blocks: u32) {
        self.areas[list_number(order, of)].nr += blocks;
        self.filled |= 1 << (16 * of.index() + order.index());
    }

    #[inline]
    fn less(&mut self, order: Order, of: MigrateType, blocks: u32) {
        let nr = &mut self.areas[list_number(order, of)].nr;
        *nr -= blocks;
        if *nr == 0 {
            self.filled &= !(1 << (16 * of.index() + order.index()));
        }
    }

    pub(super) fn validate(&self, memory: &Memory) -> Result<(), Broken> {
        let lists = Check::of("free lists");
        for of in MigrateType::ALL {
            let mut frames = 0;
            for order in (0..ORDERS as u8).map(Order::new) {
                let nr = match order {
                    Order::ZERO => self.count_singles(memory, of)?,
                    _ => self.count_blocks(memory, order, of)?,
                };
                let bit = 16 * of as u32 + u32::from(order.get());
                let is_filled = self.filled >> bit & 1 == 1;
                let list = lists.at(bit);
                list.equal(nr, self.nr(order, of), "nr(o, t) = blocks on list (o, t)")?;
                list.that(is_filled == (nr != 0), "bit (o, t) of filled = (nr(o, t) > 0)")?;
                frames += nr * order.frames();
            }
            lists.at(of as u32).equal(
                frames,
                self.free_of(of),
                "by_type[t] = frames on lists of t",
            )?;
        }
        Ok(())
    }

    fn count_singles(&self, memory: &Memory, of: MigrateType) -> Result<u32, Broken> {
        let mut nr = 0;
        let links = memory.pageblocks().single_links();
        self.singles[of.index()].validate(&links, |index| {
            let pageblock = memory.pageblocks().at(index);
            let listed = Check::of("free lists").at(index.0);
            listed.that(pageblock.migratetype() == of, "migratetype(pageblock) = t")?;
            listed.that(pageblock.nr_singles() != 0, "nr_singles > 0 of a listed pageblock")?;
            nr += pageblock.nr_singles();
            Ok(())
        })?;
        Ok(nr)
    }

    fn count_blocks(&self, memory: &Memory, order: Order, of: MigrateType) -> Result<u32, Broken> {
        let mut nr = 0;
        self.areas[list_number(order, of)].blocks.validate(memory.frames(), |pfn| {
            let listed = Check::of("free lists").at(pfn.0);
            let is_free = memory.frames().state(pfn).is_buddy(order);
            listed.that(pfn.is_aligned(order), "a block of order o is aligned to 2^o")?;
            listed
                .that(memory.pageblocks().of(pfn).migratetype() == of, "migratetype(block) = t")?;
            listed.that(is_free, "state(block) = in_zone(o, _)")?;
            nr += 1;
            Ok(())
        })?;
        Ok(nr)
    }
}
