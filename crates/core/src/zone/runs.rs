//! Runs: requests of an exact number of frames, best fit among the free frames of movable
//! pageblocks, wherever they begin.
//!
//! A power of two that is trimmed leaves its rest to smaller requests only, and two neighbours that
//! are free do not merge unless they are buddies. So frames that such requests leave or give back
//! are not free blocks: they are bits of their pageblock, where neighbours are one run whatever
//! their numbers. Pageblocks with such frames are listed by their longest run. A request takes the
//! shortest run that holds it, of a pageblock whose longest one is hardly longer.
//!
//! The buddy allocator's lists and the bits feed each other, a pageblock at a time: a request that
//! no run holds *gathers* the free blocks of a movable pageblock; one for a block that finds the
//! lists below their mark *flushes* the pageblock with the longest run; and a pageblock that has
//! become free as a whole is a free block again, at once.
//!
//! Invariants:
//! * frames kept are free: not in the budget, of no kind; see `Pageblock` for the bits
//! * a pageblock that keeps frames is `Movable`, and keeps fewer than all
//! * it is on list `min(longest_run / 8, 63)`, and bit `c` of `filled` is set iff list `c` is not
//!   empty
//! * `free` = sum over pageblocks of `|runs|`, `dirty` = sum of `|dirty_runs|`

use super::buddy::for_each_part;
use super::fallback::{Mode, ZoneView};
use super::free_area::{Block, End, FreeAreas};
use super::watermark::Mark;
use super::zone::{Inside, Zone};
use super::{AllocFlags, Zones, largest_blocks};
use crate::frame::{
    FrameBits, FrameState, Memory, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES, Pageblock,
    PageblockIndex, Pfn,
};
use core::ops::RangeInclusive;

/// Requests of so many frames are runs. Fewer are orders that the per-CPU lists keep; of more, not
/// two fit into a pageblock.
pub const RUN_FRAMES: RangeInclusive<u32> = 9..=PAGEBLOCK_FRAMES / 2;
/// Frames between the longest runs of two lists.
const STEP: u32 = 8;
const LISTS: usize = 64;
const NIL: u32 = u32::MAX;
/// Pageblocks of one list that a request looks at.
const LOOKS: usize = 8;
/// Pageblocks that a request gathers before it takes a whole one.
const GATHERS: usize = 4;

/// A run that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its first frame.
    pub pfn: Pfn,
    /// Whether every byte is known to be zero.
    pub zeroed: bool,
}

/// The pageblocks that keep frames, by their longest runs.
pub(super) struct Runs {
    heads: [u32; LISTS],
    filled: u64,
    pub(super) free: u32,
    pub(super) dirty: u32,
}

fn list_of(longest: u32) -> Option<usize> {
    (longest > 0).then(|| ((longest / STEP) as usize).min(LISTS - 1))
}

impl Runs {
    pub(super) const fn new() -> Self {
        Self { heads: [NIL; LISTS], filled: 0, free: 0, dirty: 0 }
    }

    /// Takes `count` frames at a multiple of `align` frames, if a run that it looks at has them.
    #[inline]
    fn take(&mut self, memory: &Memory, count: u32, align: u32) -> Option<Run> {
        let mut lists = self.filled & u64::MAX << (count / STEP);
        while lists != 0 {
            let mut at = self.heads[lists.trailing_zeros() as usize];
            lists &= lists - 1;
            for _ in 0..LOOKS {
                if at == NIL {
                    break;
                }
                let pageblock = memory.pageblocks().at(PageblockIndex(at));
                if pageblock.longest_run() >= count
                    && let Some(run) = self.take_in(memory, PageblockIndex(at), count, align)
                {
                    return Some(run);
                }
                at = pageblock.run_links().0;
            }
        }
        None
    }

    /// Takes a run of one pageblock.
    #[inline]
    fn take_in(
        &mut self,
        memory: &Memory,
        index: PageblockIndex,
        count: u32,
        align: u32,
    ) -> Option<Run> {
        let pageblock = memory.pageblocks().at(index);
        let fit = pageblock.runs().best_fit(count, align)?;
        let were_dirty = pageblock.remove_run(fit.at, count);
        self.free -= count;
        self.dirty -= were_dirty;
        self.set_longest(memory, index, fit.longest_left);
        Some(Run { pfn: index.first().plus(fit.at), zeroed: were_dirty == 0 })
    }

    /// Takes the front of a run that has at least twice as many frames.
    fn take_with_room(&mut self, memory: &Memory, count: u32) -> Option<Run> {
        // A whole pageblock is never kept.
        if 2 * count >= PAGEBLOCK_FRAMES {
            return None;
        }
        let run = self.take(memory, 2 * count, 1)?;
        self.keep(memory, run.pfn.plus(count), count, run.zeroed);
        Some(run)
    }

    /// Takes the `count` frames from `pfn` on, if all of them are kept; of one pageblock.
    fn take_at(&mut self, memory: &Memory, pfn: Pfn, count: u32) -> bool {
        let (index, offset) = (pfn.pageblock(), pfn.0 % PAGEBLOCK_FRAMES);
        let pageblock = memory.pageblocks().at(index);
        if pageblock.runs_in(offset, count) != count {
            return false;
        }
        self.dirty -= pageblock.remove_run(offset, count);
        self.free -= count;
        self.set_longest(memory, index, pageblock.runs().longest_run());
        true
    }

    /// Keeps frames of a movable pageblock; returns whether all of it is kept now.
    #[inline]
    fn keep(&mut self, memory: &Memory, pfn: Pfn, count: u32, zeroed: bool) -> bool {
        let (index, offset) = (pfn.pageblock(), pfn.0 % PAGEBLOCK_FRAMES);
        let pageblock = memory.pageblocks().at(index);
        debug_assert_eq!(pageblock.migratetype(), MigrateType::Movable, "{pfn:?} is not movable");
        debug_assert_eq!(pageblock.runs_in(offset, count), 0, "{pfn:?} is kept already");
        pageblock.add_run(offset, count, zeroed);
        self.free += count;
        self.dirty += if zeroed { 0 } else { count };
        let runs = pageblock.runs();
        let merged = runs.end_of_run(offset) - runs.start_of_run(offset);
        let longest = pageblock.longest_run().max(merged);
        self.set_longest(memory, index, longest);
        longest == PAGEBLOCK_FRAMES
    }

    /// Keeps nothing of a pageblock any more; returns what was kept, and what of it is dirty.
    fn give_up(&mut self, memory: &Memory, index: PageblockIndex) -> (FrameBits, FrameBits) {
        let pageblock = memory.pageblocks().at(index);
        let (runs, dirty) = (pageblock.runs(), pageblock.dirty_runs());
        pageblock.set_runs(FrameBits::NONE);
        pageblock.set_dirty_runs(FrameBits::NONE);
        self.free -= runs.count();
        self.dirty -= dirty.count();
        self.set_longest(memory, index, 0);
        (runs, dirty)
    }

    /// Takes the dirty frames of a pageblock away, to be purged.
    pub(super) fn isolate_dirty(&mut self, memory: &Memory, index: PageblockIndex) -> FrameBits {
        let pageblock = memory.pageblocks().at(index);
        let (mut runs, dirty) = (pageblock.runs(), pageblock.dirty_runs());
        runs.0.iter_mut().zip(dirty.0).for_each(|(word, dirty)| *word &= !dirty);
        pageblock.set_runs(runs);
        pageblock.set_dirty_runs(FrameBits::NONE);
        self.free -= dirty.count();
        self.dirty -= dirty.count();
        self.set_longest(memory, index, runs.longest_run());
        dirty
    }

    fn set_longest(&mut self, memory: &Memory, index: PageblockIndex, longest: u32) {
        let pageblock = memory.pageblocks().at(index);
        let (from, to) = (list_of(pageblock.longest_run()), list_of(longest));
        pageblock.set_longest_run(longest);
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
        pageblocks.at(index).set_next_run(next);
        pageblocks.at(index).set_prev_run(NIL);
        if next != NIL {
            pageblocks.at(PageblockIndex(next)).set_prev_run(index.0);
        }
        self.heads[list] = index.0;
        self.filled |= 1 << list;
    }

    fn unlink(&mut self, memory: &Memory, index: PageblockIndex, list: usize) {
        let pageblocks = memory.pageblocks();
        let (next, prev) = pageblocks.at(index).run_links();
        if next != NIL {
            pageblocks.at(PageblockIndex(next)).set_prev_run(prev);
        }
        match prev {
            NIL => self.heads[list] = next,
            prev => pageblocks.at(PageblockIndex(prev)).set_next_run(next),
        }
        if self.heads[list] == NIL {
            self.filled &= !(1 << list);
        }
    }

    /// The pageblock with the longest run, to within `STEP` frames.
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
            assert_eq!(self.filled >> list & 1 == 1, at != NIL, "filled bit of runs, list {list}");
            while at != NIL {
                let pageblock = memory.pageblocks().at(PageblockIndex(at));
                let (runs, longest) = (pageblock.runs(), pageblock.longest_run());
                assert_eq!(longest, runs.longest_run(), "longest run of pageblock {at}");
                assert_eq!(list_of(longest), Some(list), "pageblock {at} is on another list");
                assert_eq!(pageblock.run_links().1, prev, "previous link of pageblock {at}");
                assert_eq!(pageblock.migratetype(), MigrateType::Movable, "pageblock {at}");
                assert!(longest < PAGEBLOCK_FRAMES, "pageblock {at} is free as a whole");
                free += runs.count();
                dirty += pageblock.dirty_runs().count();
                (prev, at) = (at, pageblock.run_links().0);
            }
        }
        assert_eq!(free, self.free, "frames kept as runs = bits of listed pageblocks");
        assert_eq!(dirty, self.dirty, "dirty frames kept = bits of listed pageblocks");
    }
}

impl FreeAreas {
    /// Makes the frames that a pageblock keeps free blocks again.
    pub(super) fn flush_runs(&mut self, memory: &Memory, index: PageblockIndex) {
        if memory.pageblocks().at(index).longest_run() == 0 {
            return;
        }
        let (runs, dirty) = self.runs.give_up(memory, index);
        let mut from = 0;
        while let Some((first, end)) = runs.next_run(from) {
            from = end;
            for (pfn, order) in largest_blocks(index.first().plus(first), end - first) {
                let zeroed = dirty.count_in(pfn.0 % PAGEBLOCK_FRAMES, order.frames()) == 0;
                self.put(memory, Block { pfn, order, zeroed }, End::Head);
            }
        }
    }

    /// Keeps free frames, or makes them free blocks where the pageblock is not movable.
    pub(super) fn put_run(&mut self, memory: &Memory, pfn: Pfn, count: u32, zeroed: bool) {
        if memory.pageblocks().of(pfn).migratetype() != MigrateType::Movable {
            for (pfn, order) in largest_blocks(pfn, count) {
                self.put(memory, Block { pfn, order, zeroed }, End::Head);
            }
            return;
        }
        let pageblock = memory.pageblocks().of(pfn);
        let is_whole = self.runs.keep(memory, pfn, count, zeroed);
        // After a flush part of what is free may be in blocks.
        let blocks = pageblock.free();
        if is_whole || blocks > 0 && blocks + pageblock.runs().count() == PAGEBLOCK_FRAMES {
            self.flush_runs(memory, pfn.pageblock());
        }
    }

    /// Takes a run: of those kept, or of a pageblock whose free blocks it gathers first while
    /// enough is left on the lists.
    #[inline]
    fn take_run(&mut self, view: ZoneView<'_>, count: u32, align: u32) -> Option<Run> {
        let run = self.runs.take(view.memory, count, align);
        if run.is_some() {
            return run;
        }
        for _ in 0..GATHERS {
            let index = self.gather(view, count)?;
            let run = self.runs.take_in(view.memory, index, count, align);
            if run.is_some() {
                return run;
            }
        }
        None
    }

    /// Keeps what is free of a movable pageblock in blocks: one that has a block of at least a
    /// quarter of `count`, as every run of `count` frames does.
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

    /// Keeps a block of a movable pageblock that is on no list, for a run that is taken at once:
    /// until then the pageblock may be kept as a whole.
    fn keep_block(&mut self, memory: &Memory, block: Block) {
        let Block { pfn, order, zeroed } = block;
        memory.frames().set_state(pfn, FrameState::USED);
        self.runs.keep(memory, pfn, order.frames(), zeroed);
    }
}

impl Zone {
    fn take_run(&self, memory: &Memory, count: u32, align: Order) -> Option<Run> {
        let view = self.view(memory);
        let mut inside = self.lock();
        let mut run = inside.areas.take_run(view, count, align.frames());
        if run.is_none() {
            self.publish(&inside.areas);
            run = self.carve_run(&mut inside, view, count, align);
        }
        inside.count_taken(u64::from(run.is_some()), count);
        self.publish(&inside.areas);
        run
    }

    /// Takes a whole pageblock, or else the smallest block that holds the run, and keeps the rest.
    #[cold]
    fn carve_run(
        &self,
        inside: &mut Inside,
        view: ZoneView<'_>,
        count: u32,
        align: Order,
    ) -> Option<Run> {
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
                return areas.runs.take_in(memory, pfn.pageblock(), count, align.frames());
            }
            // Stolen: what is left belongs to those who own the pageblock.
            for_each_part(memory, pfn, order, Pageblock::mark_movable);
            areas.put_run(memory, pfn.plus(count), order.frames() - count, zeroed);
            return Some(Run { pfn, zeroed });
        }
        None
    }

    fn take_run_with_room(&self, memory: &Memory, count: u32) -> Option<Run> {
        let mut inside = self.lock();
        let run = inside.areas.runs.take_with_room(memory, count);
        inside.count_taken(u64::from(run.is_some()), count);
        self.publish(&inside.areas);
        run
    }

    fn take_run_at(&self, memory: &Memory, pfn: Pfn, count: u32) -> bool {
        let mut inside = self.lock();
        let is_taken = inside.areas.runs.take_at(memory, pfn, count);
        inside.count_taken(u64::from(is_taken), count);
        self.publish(&inside.areas);
        is_taken
    }

    fn put_run(&self, memory: &Memory, pfn: Pfn, count: u32) {
        let mut inside = self.lock();
        inside.areas.put_run(memory, pfn, count, false);
        inside.count_put(1, count);
        self.publish(&inside.areas);
    }

    /// Makes the frames of the pageblock with the longest run free blocks; false where none are
    /// kept.
    fn flush_longest(&self, memory: &Memory) -> bool {
        if self.kept_in_runs() == 0 {
            return false;
        }
        let mut inside = self.lock();
        let longest = inside.areas.runs.longest();
        if let Some(index) = longest {
            inside.areas.flush_runs(memory, index);
        }
        self.publish(&inside.areas);
        longest.is_some()
    }

    /// Makes all frames that are kept as runs free blocks again.
    pub fn flush_runs(&self, memory: &Memory) {
        while self.flush_longest(memory) {}
    }
}

impl Zones {
    /// Takes `count` frames ([`RUN_FRAMES`]) at a multiple of `align` (below the order of a
    /// pageblock) from one node, in one critical section; `None` where no run holds them and the
    /// zone would fall below its low mark. O(pageblocks looked at), which is bounded.
    pub fn take_run(&self, node: NodeId, count: u32, align: Order) -> Option<Run> {
        debug_assert!(RUN_FRAMES.contains(&count) && align < Order::PAGEBLOCK);
        self.charged(count, || self.zone(node).take_run(&self.memory, count, align))
    }

    /// As [`take_run`](Self::take_run), of a run that is kept and has as many frames once more,
    /// which stay free behind those that are taken.
    pub fn take_run_with_room(&self, node: NodeId, count: u32) -> Option<Run> {
        debug_assert!(RUN_FRAMES.contains(&count));
        self.charged(count, || self.zone(node).take_run_with_room(&self.memory, count))
    }

    /// Takes the `count` frames from `pfn` on, all of one pageblock of the node, if all of them are
    /// kept as runs; in one critical section. A run that lies in front of them grows so.
    pub fn take_run_at(&self, node: NodeId, pfn: Pfn, count: u32) -> bool {
        debug_assert!(pfn.0 % PAGEBLOCK_FRAMES + count <= PAGEBLOCK_FRAMES);
        let take = || self.zone(node).take_run_at(&self.memory, pfn, count).then_some(());
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
    pub fn put_run(&self, node: NodeId, pfn: Pfn, count: u32) {
        self.zone(node).put_run(&self.memory, pfn, count);
        self.budget.uncharge(count);
    }

    /// Makes frames that are kept as runs free blocks until a block of `order` can be taken above
    /// the low mark of the zone. Returns whether it can.
    pub(crate) fn flush_runs_for(&self, node: NodeId, order: Order) -> bool {
        let zone = self.zone(node);
        while !zone.watermark_ok(order, Mark::Low, AllocFlags::default()) {
            if !zone.flush_longest(&self.memory) {
                return false;
            }
        }
        true
    }
}
