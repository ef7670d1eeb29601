//! Extents: requests of an exact number of frames, best fit among the free frames of movable
//! pageblocks, wherever they begin.
//!
//! A power of two that is trimmed leaves its rest to smaller requests only, and two neighbours that
//! are free do not merge unless they are buddies. So frames that such requests leave or give back
//! are not free blocks: they are bits of their pageblock, where neighbours are one extent whatever
//! their numbers. Pageblocks with such frames are listed by their longest extent. A request takes
//! the shortest extent that holds it, of a pageblock whose longest one is hardly longer.
//!
//! The buddy allocator's lists and the bits feed each other, a pageblock at a time: a request that
//! no extent holds *gathers* the free blocks of a movable pageblock; one for a block that finds the
//! lists below their mark *flushes* the pageblock with the longest extent; and a pageblock that has
//! become free as a whole is a free block again, at once.
//!
//! Invariants:
//! * frames kept are free: not in the budget, of no kind; see `Pageblock` for the bits
//! * a pageblock that keeps frames is `Movable`, and keeps fewer than all
//! * it is on list `min(longest_extent / 8, 63)`, and bit `c` of `filled` is set iff list `c` is
//!   not empty
//! * `free` = sum over pageblocks of `|extents|`, `dirty` = sum of `|dirty_extents|`

use super::buddy::for_each_part;
use super::fallback::{Mode, ZoneView};
use super::free_area::{Block, End, FreeAreas};
use super::watermark::Mark;
use super::zone::{Locked, Zone};
use super::{AllocFlags, Zones, largest_blocks};
use crate::frame::{
    FrameBits, FrameState, Memory, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, Pageblock,
    PageblockIndex, Pfn,
};
use core::ops::RangeInclusive;

/// Requests of so many frames are extents. Fewer are orders that the per-CPU lists keep; of more,
/// not two fit into a pageblock.
pub const EXTENT_FRAMES: RangeInclusive<u32> = 9..=PAGEBLOCK_FRAMES / 2;
/// Frames between the longest extents of two lists.
const STEP: u32 = 8;
const LISTS: usize = 64;
const NIL: u32 = u32::MAX;
/// Pageblocks of one list that a request looks at.
const LOOKS: usize = 8;
/// Pageblocks that a request gathers before it takes a whole one.
const GATHERS: usize = 4;

/// An extent that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first frame.
    pub pfn: Pfn,
    /// Whether every byte is known to be zero.
    pub zeroed: bool,
}

/// The pageblocks that keep frames, by their longest extents.
pub(super) struct Extents {
    heads: [u32; LISTS],
    filled: u64,
    pub(super) free: u32,
    pub(super) dirty: u32,
}

fn list_of(longest: u32) -> Option<usize> {
    (longest > 0).then(|| ((longest / STEP) as usize).min(LISTS - 1))
}

impl Extents {
    pub(super) const fn new() -> Self {
        Self { heads: [NIL; LISTS], filled: 0, free: 0, dirty: 0 }
    }

    /// Takes `count` frames at a multiple of `align` frames, if an extent that it looks at has
    /// them.
    #[inline]
    fn take(&mut self, memory: &Memory, count: u32, align: u32) -> Option<Extent> {
        let mut lists = self.filled & u64::MAX << (count / STEP);
        while lists != 0 {
            let mut at = self.heads[lists.trailing_zeros() as usize];
            lists &= lists - 1;
            for _ in 0..LOOKS {
                if at == NIL {
                    break;
                }
                let pageblock = memory.pageblocks().at(PageblockIndex(at));
                if pageblock.longest_extent() >= count
                    && let Some(extent) = self.take_in(memory, PageblockIndex(at), count, align)
                {
                    return Some(extent);
                }
                at = pageblock.extent_links().0;
            }
        }
        None
    }

    /// Takes an extent of one pageblock.
    #[inline]
    fn take_in(
        &mut self,
        memory: &Memory,
        index: PageblockIndex,
        count: u32,
        align: u32,
    ) -> Option<Extent> {
        let pageblock = memory.pageblocks().at(index);
        let fit = pageblock.extents().best_fit(count, align)?;
        let were_dirty = pageblock.remove_extent(fit.at, count);
        self.free -= count;
        self.dirty -= were_dirty;
        self.set_longest(memory, index, fit.longest_left);
        Some(Extent { pfn: index.first().plus(fit.at), zeroed: were_dirty == 0 })
    }

    /// Takes the front of an extent that has at least twice as many frames.
    fn take_with_room(&mut self, memory: &Memory, count: u32) -> Option<Extent> {
        // A whole pageblock is never kept.
        if 2 * count >= PAGEBLOCK_FRAMES {
            return None;
        }
        let extent = self.take(memory, 2 * count, 1)?;
        self.keep(memory, extent.pfn.plus(count), count, extent.zeroed);
        Some(extent)
    }

    /// Takes the `count` frames from `pfn` on, if all of them are kept; of one pageblock.
    fn take_at(&mut self, memory: &Memory, pfn: Pfn, count: u32) -> bool {
        let (index, offset) = (pfn.pageblock(), pfn.0 % PAGEBLOCK_FRAMES);
        let pageblock = memory.pageblocks().at(index);
        if pageblock.extents_in(offset, count) != count {
            return false;
        }
        self.dirty -= pageblock.remove_extent(offset, count);
        self.free -= count;
        self.set_longest(memory, index, pageblock.extents().longest_extent());
        true
    }

    /// Keeps frames of a movable pageblock; returns whether all of it is kept now.
    #[inline]
    fn keep(&mut self, memory: &Memory, pfn: Pfn, count: u32, zeroed: bool) -> bool {
        let (index, offset) = (pfn.pageblock(), pfn.0 % PAGEBLOCK_FRAMES);
        let pageblock = memory.pageblocks().at(index);
        debug_assert_eq!(pageblock.migratetype(), MigrateType::Movable, "{pfn:?} is not movable");
        debug_assert_eq!(pageblock.extents_in(offset, count), 0, "{pfn:?} is kept already");
        pageblock.add_extent(offset, count, zeroed);
        self.free += count;
        self.dirty += if zeroed { 0 } else { count };
        let extents = pageblock.extents();
        let merged = extents.end_of_extent(offset) - extents.start_of_extent(offset);
        let longest = pageblock.longest_extent().max(merged);
        self.set_longest(memory, index, longest);
        longest == PAGEBLOCK_FRAMES
    }

    /// Keeps nothing of a pageblock any more; returns what was kept, and what of it is dirty.
    fn give_up(&mut self, memory: &Memory, index: PageblockIndex) -> (FrameBits, FrameBits) {
        let pageblock = memory.pageblocks().at(index);
        let (extents, dirty) = (pageblock.extents(), pageblock.dirty_extents());
        pageblock.set_extents(FrameBits::NONE);
        pageblock.set_dirty_extents(FrameBits::NONE);
        self.free -= extents.count();
        self.dirty -= dirty.count();
        self.set_longest(memory, index, 0);
        (extents, dirty)
    }

    /// Takes the dirty frames of a pageblock away, to be purged.
    pub(super) fn isolate_dirty(&mut self, memory: &Memory, index: PageblockIndex) -> FrameBits {
        let pageblock = memory.pageblocks().at(index);
        let (mut extents, dirty) = (pageblock.extents(), pageblock.dirty_extents());
        extents.0.iter_mut().zip(dirty.0).for_each(|(word, dirty)| *word &= !dirty);
        pageblock.set_extents(extents);
        pageblock.set_dirty_extents(FrameBits::NONE);
        self.free -= dirty.count();
        self.dirty -= dirty.count();
        self.set_longest(memory, index, extents.longest_extent());
        dirty
    }

    fn set_longest(&mut self, memory: &Memory, index: PageblockIndex, longest: u32) {
        let pageblock = memory.pageblocks().at(index);
        let (from, to) = (list_of(pageblock.longest_extent()), list_of(longest));
        pageblock.set_longest_extent(longest);
        if from == to {
            return;
        }
        if let Some(list) = from {
            self.unlink(memory, index, list);
        }
        if let Some(list) = to {
            self.link(memory, index, list);
        }
    }

    fn link(&mut self, memory: &Memory, index: PageblockIndex, list: usize) {
        let pageblocks = memory.pageblocks();
        let next = self.heads[list];
        pageblocks.at(index).set_next_extent(next);
        pageblocks.at(index).set_prev_extent(NIL);
        if next != NIL {
            pageblocks.at(PageblockIndex(next)).set_prev_extent(index.0);
        }
        self.heads[list] = index.0;
        self.filled |= 1 << list;
    }

    fn unlink(&mut self, memory: &Memory, index: PageblockIndex, list: usize) {
        let pageblocks = memory.pageblocks();
        let (next, prev) = pageblocks.at(index).extent_links();
        if next != NIL {
            pageblocks.at(PageblockIndex(next)).set_prev_extent(prev);
        }
        match prev {
            NIL => self.heads[list] = next,
            prev => pageblocks.at(PageblockIndex(prev)).set_next_extent(next),
        }
        if self.heads[list] == NIL {
            self.filled &= !(1 << list);
        }
    }

    /// The pageblock with the longest extent, to within `STEP` frames.
    fn longest(&self) -> Option<PageblockIndex> {
        let list = self.filled.checked_ilog2()?;
        Some(PageblockIndex(self.heads[list as usize]))
    }

    /// Walks every list and compares it with counts and bits. O(pageblocks that keep frames).
    ///
    /// # Panics
    /// With the equation that does not hold.
    pub(super) fn validate(&self, memory: &Memory) {
        let (mut free, mut dirty) = (0, 0);
        for list in 0..LISTS {
            let (mut at, mut prev) = (self.heads[list], NIL);
            assert_eq!(
                self.filled >> list & 1 == 1,
                at != NIL,
                "filled bit of extents, list {list}"
            );
            while at != NIL {
                let pageblock = memory.pageblocks().at(PageblockIndex(at));
                let (extents, longest) = (pageblock.extents(), pageblock.longest_extent());
                assert_eq!(longest, extents.longest_extent(), "longest extent of pageblock {at}");
                assert_eq!(list_of(longest), Some(list), "pageblock {at} is on another list");
                assert_eq!(pageblock.extent_links().1, prev, "previous link of pageblock {at}");
                assert_eq!(pageblock.migratetype(), MigrateType::Movable, "pageblock {at}");
                assert!(longest < PAGEBLOCK_FRAMES, "pageblock {at} is free as a whole");
                free += extents.count();
                dirty += pageblock.dirty_extents().count();
                (prev, at) = (at, pageblock.extent_links().0);
            }
        }
        assert_eq!(free, self.free, "frames kept as extents = bits of listed pageblocks");
        assert_eq!(dirty, self.dirty, "dirty frames kept = bits of listed pageblocks");
    }
}

impl FreeAreas {
    /// Makes the frames that a pageblock keeps free blocks again.
    pub(super) fn flush_extents(&mut self, memory: &Memory, index: PageblockIndex) {
        if memory.pageblocks().at(index).longest_extent() == 0 {
            return;
        }
        let (extents, dirty) = self.extents.give_up(memory, index);
        let mut from = 0;
        while let Some((first, end)) = extents.next_extent(from) {
            from = end;
            for (pfn, order) in largest_blocks(index.first().plus(first), end - first) {
                let zeroed = dirty.count_in(pfn.0 % PAGEBLOCK_FRAMES, order.frames()) == 0;
                self.put(memory, Block { pfn, order, zeroed }, End::Head);
            }
        }
    }

    /// Keeps free frames, or makes them free blocks where the pageblock is not movable.
    pub(super) fn put_extent(&mut self, memory: &Memory, pfn: Pfn, count: u32, zeroed: bool) {
        if memory.pageblocks().of(pfn).migratetype() != MigrateType::Movable {
            for (pfn, order) in largest_blocks(pfn, count) {
                self.put(memory, Block { pfn, order, zeroed }, End::Head);
            }
            return;
        }
        let pageblock = memory.pageblocks().of(pfn);
        let is_whole = self.extents.keep(memory, pfn, count, zeroed);
        // After a flush part of what is free may be in blocks.
        let blocks = pageblock.free();
        if is_whole || blocks > 0 && blocks + pageblock.extents().count() == PAGEBLOCK_FRAMES {
            self.flush_extents(memory, pfn.pageblock());
        }
    }

    /// Takes an extent: of those kept, or of a pageblock whose free blocks it gathers first while
    /// enough is left on the lists.
    #[inline]
    fn take_extent(&mut self, view: ZoneView<'_>, count: u32, align: u32) -> Option<Extent> {
        let extent = self.extents.take(view.memory, count, align);
        if extent.is_some() {
            return extent;
        }
        for _ in 0..GATHERS {
            let index = self.gather(view, count)?;
            let extent = self.extents.take_in(view.memory, index, count, align);
            if extent.is_some() {
                return extent;
            }
        }
        None
    }

    /// Keeps what is free of a movable pageblock in blocks: one that has a block of at least a
    /// quarter of `count`, as every extent of `count` frames does.
    fn gather(&mut self, view: ZoneView<'_>, count: u32) -> Option<PageblockIndex> {
        let memory = view.memory;
        let smallest = count.ilog2().saturating_sub(1) as u8;
        let largest = (smallest..Order::PAGEBLOCK.get())
            .rev()
            .map(Order::new)
            .find(|order| self.nr(*order, MigrateType::Movable) != 0)?;
        let index = self.first(memory, largest, MigrateType::Movable)?.pageblock();
        let gathered = memory.pageblocks().at(index).free();
        if self.free() <= view.marks.effective(Mark::High) + gathered {
            return None;
        }
        let mut pfn = index.first();
        while pfn < index.first().plus(PAGEBLOCK_FRAMES) {
            let state = memory.frames().state(pfn);
            let order = if state.is_in_zone() { state.order() } else { Order::ZERO };
            if state.is_in_zone() {
                let zeroed = self.remove(memory, pfn, order, MigrateType::Movable);
                self.keep_block(memory, Block { pfn, order, zeroed });
            }
            pfn = pfn.plus(order.frames());
        }
        Some(index)
    }

    /// Keeps a block of a movable pageblock that is on no list, for an extent that is taken at
    /// once: until then the pageblock may be kept as a whole.
    fn keep_block(&mut self, memory: &Memory, block: Block) {
        let Block { pfn, order, zeroed } = block;
        memory.frames().set_state(pfn, FrameState::USED);
        self.extents.keep(memory, pfn, order.frames(), zeroed);
    }
}

impl Zone {
    fn take_extent(&self, memory: &Memory, count: u32, align: Order) -> Option<Extent> {
        let view = self.view(memory);
        let mut inside = self.lock();
        let mut extent = inside.areas.take_extent(view, count, align.frames());
        if extent.is_none() {
            self.publish(&inside.areas);
            extent = self.carve_extent(&mut inside, view, count, align);
        }
        inside.count_taken(u64::from(extent.is_some()), count);
        self.publish(&inside.areas);
        extent
    }

    /// Takes a whole pageblock, or else the smallest block that holds the extent, and keeps the
    /// rest.
    #[cold]
    fn carve_extent(
        &self,
        inside: &mut Locked,
        view: ZoneView<'_>,
        count: u32,
        align: Order,
    ) -> Option<Extent> {
        let areas = &mut inside.areas;
        let memory = view.memory;
        for order in [Order::PAGEBLOCK, Order::covering(count).max(align)] {
            if !self.watermark_ok(order, Mark::Low, AllocFlags::default()) {
                continue;
            }
            let block = areas.take_any(view, order, MigrateType::Movable, &mut Mode::default());
            let Some(Block { pfn, order, zeroed }) = block else { continue };
            if memory.pageblocks().of(pfn).migratetype() == MigrateType::Movable {
                areas.keep_block(memory, Block { pfn, order, zeroed });
                return areas.extents.take_in(memory, pfn.pageblock(), count, align.frames());
            }
            // Stolen: what is left belongs to those who own the pageblock.
            for_each_part(memory, pfn, order, Pageblock::mark_movable);
            areas.put_extent(memory, pfn.plus(count), order.frames() - count, zeroed);
            return Some(Extent { pfn, zeroed });
        }
        None
    }

    fn take_extent_with_room(&self, memory: &Memory, count: u32) -> Option<Extent> {
        let mut inside = self.lock();
        let extent = inside.areas.extents.take_with_room(memory, count);
        inside.count_taken(u64::from(extent.is_some()), count);
        self.publish(&inside.areas);
        extent
    }

    fn take_extent_at(&self, memory: &Memory, pfn: Pfn, count: u32) -> bool {
        let mut inside = self.lock();
        let is_taken = inside.areas.extents.take_at(memory, pfn, count);
        inside.count_taken(u64::from(is_taken), count);
        self.publish(&inside.areas);
        is_taken
    }

    fn put_extent(&self, memory: &Memory, pfn: Pfn, count: u32) {
        let mut inside = self.lock();
        inside.areas.put_extent(memory, pfn, count, false);
        inside.count_put(1, count);
        self.publish(&inside.areas);
    }

    /// Makes the frames of the pageblock with the longest extent free blocks; false where none are
    /// kept.
    fn flush_longest(&self, memory: &Memory) -> bool {
        if self.kept_in_extents() == 0 {
            return false;
        }
        let mut inside = self.lock();
        let longest = inside.areas.extents.longest();
        if let Some(index) = longest {
            inside.areas.flush_extents(memory, index);
        }
        self.publish(&inside.areas);
        longest.is_some()
    }

    /// Makes all frames that are kept as extents free blocks again.
    pub fn flush_extents(&self, memory: &Memory) {
        while self.flush_longest(memory) {}
    }
}

impl Zones {
    /// Takes `count` frames ([`EXTENT_FRAMES`]) at a multiple of `align` (below the order of a
    /// pageblock) from one node, in one critical section; `None` where no extent holds them and the
    /// zone would fall below its low mark. O(pageblocks looked at), which is bounded.
    pub fn take_extent(&self, node: NodeId, count: u32, align: Order) -> Option<Extent> {
        debug_assert!(EXTENT_FRAMES.contains(&count) && align < Order::PAGEBLOCK);
        self.charged(count, || self.zone(node).take_extent(&self.memory, count, align))
    }

    /// As [`take_extent`](Self::take_extent), of an extent that is kept and has as many frames once
    /// more, which stay free behind those that are taken.
    pub fn take_extent_with_room(&self, node: NodeId, count: u32) -> Option<Extent> {
        debug_assert!(EXTENT_FRAMES.contains(&count));
        self.charged(count, || self.zone(node).take_extent_with_room(&self.memory, count))
    }

    /// Takes the `count` frames from `pfn` on, all of one pageblock of the node, if all of them are
    /// kept as extents; in one critical section. An extent that lies in front of them grows so.
    pub fn take_extent_at(&self, node: NodeId, pfn: Pfn, count: u32) -> bool {
        debug_assert!(pfn.0 % PAGEBLOCK_FRAMES + count <= PAGEBLOCK_FRAMES);
        let take = || self.zone(node).take_extent_at(&self.memory, pfn, count).then_some(());
        self.charged(count, take).is_some()
    }

    /// What `take` takes, charged for `count` frames.
    fn charged<T>(&self, count: u32, take: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.budget.charge_blocks(1, count) == 0 {
            return None;
        }
        let taken = take();
        if taken.is_none() {
            self.budget.uncharge(count);
        }
        taken
    }

    /// Puts frames of one pageblock back, in one critical section.
    pub fn put_extent(&self, node: NodeId, pfn: Pfn, count: u32) {
        self.zone(node).put_extent(&self.memory, pfn, count);
        self.budget.uncharge(count);
    }

    /// Makes frames that are kept as extents free blocks until a block of `order` can be taken
    /// above the low mark of the zone. Returns whether it can.
    pub(crate) fn flush_extents_for(&self, node: NodeId, order: Order) -> bool {
        let zone = self.zone(node);
        while !zone.watermark_ok(order, Mark::Low, AllocFlags::default()) {
            if !zone.flush_longest(&self.memory) {
                return false;
            }
        }
        true
    }
}
