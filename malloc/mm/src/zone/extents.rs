//! Extents: best fit of exact numbers of frames among the free frames of movable pageblocks.
//!
//! If a block were cut to the size of a request, only smaller requests could use the rest, and free
//! neighbours would merge only if they were buddies. So frames that requests for exact numbers
//! leave over or free become bits of their pageblock, where any number of neighbours form one
//! extent. Lists sort the pageblocks by their longest extents. A request chooses a pageblock whose
//! longest extent is little longer than needed, and takes its shortest extent that is long enough.
//!
//! Frames pass between blocks and extents a pageblock at a time. A request that finds no extent
//! *gathers* the free blocks of a movable pageblock. A request that finds the lists of blocks below
//! their mark *flushes* the pageblock with the longest extent. A wholly free pageblock is flushed
//! at once.
//!
//! Invariants, where *kept* frames are free frames that are part of an extent:
//! * kept frames count as free in the budget, and have no kind; `Pageblock` describes their bits
//! * a pageblock that keeps frames is `Movable`, and does not keep all of its frames
//! * a pageblock that keeps frames is on list `min(longest_extent / 8, 63)`; bit `c` of `filled` is
//!   set iff list `c` is not empty
//! * `free` = sum over pageblocks of `|extents|`, `dirty` = sum of `|dirty_extents|`

use super::ask::Page;
use crate::frame::{
    FrameBits, FrontList, Memory, MigrateType, PAGEBLOCK_FRAMES, PageblockIndex, Pfn, fresh_zero,
};
use core::ops::RangeInclusive;
use quarry_sys::broken::{Broken, Check};

/// The sizes of requests for extents, in frames. Per-CPU lists of blocks serve smaller requests,
/// and blocks serve larger ones, of which only one would fit into a pageblock.
pub const EXTENT_FRAMES: RangeInclusive<u32> = 9..=PAGEBLOCK_FRAMES / 2;
/// The difference between the longest extents of two neighbouring lists, in frames.
const STEP: u32 = 8;
const LISTS: usize = 64;
/// The maximum number of pageblocks that a request examines on each list.
const LOOKS: usize = 8;

fresh_zero! {
    /// The pageblocks that keep free frames, by their longest extents.
    pub(crate) struct Extents {
        lists: [FrontList<PageblockIndex>; LISTS],
        filled: u64,
        free: u32,
        dirty: u32,
    }
}

fn list_of(longest: u32) -> Option<usize> {
    (longest > 0).then(|| ((longest / STEP) as usize).min(LISTS - 1))
}

impl Extents {
    pub(crate) const fn new() -> Self {
        Self { lists: [const { FrontList::new() }; LISTS], filled: 0, free: 0, dirty: 0 }
    }

    #[inline]
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    #[inline]
    pub(crate) fn dirty(&self) -> u32 {
        self.dirty
    }

    /// Takes an extent; examines a bounded number of pageblocks.
    #[inline]
    pub(crate) fn take(&mut self, memory: &Memory, count: u32, align: u32) -> Option<Page> {
        let mut lists = self.filled & u64::MAX << (count / STEP);
        while lists != 0 {
            let mut at = self.lists[lists.trailing_zeros() as usize].head();
            lists &= lists - 1;
            for _ in 0..LOOKS {
                let Some(index) = at.get() else { break };
                let pageblock = memory.pageblocks().at(index);
                if pageblock.longest_extent() >= count
                    && let Some(extent) = self.take_in(memory, index, count, align)
                {
                    return Some(extent);
                }
                at = pageblock.next_extent();
            }
        }
        None
    }

    #[inline]
    pub(crate) fn take_in(
        &mut self,
        memory: &Memory,
        index: PageblockIndex,
        count: u32,
        align: u32,
    ) -> Option<Page> {
        let pageblock = memory.pageblocks().at(index);
        let fit = pageblock.extents().best_fit(count, align)?;
        let were_dirty = pageblock.remove_extent(fit.at, count);
        self.free -= count;
        self.dirty -= were_dirty;
        self.set_longest(memory, index, fit.longest_left);
        Some(Page { pfn: index.first().plus(fit.at), zeroed: were_dirty == 0 })
    }

    pub(crate) fn take_with_room(&mut self, memory: &Memory, count: u32) -> Option<Page> {
        if 2 * count >= PAGEBLOCK_FRAMES {
            return None;
        }
        let extent = self.take(memory, 2 * count, 1)?;
        self.keep(memory, extent.pfn.plus(count), count, extent.zeroed);
        Some(extent)
    }

    pub(crate) fn take_at(&mut self, memory: &Memory, pfn: Pfn, count: u32) -> bool {
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

    /// Keeps frames of a movable pageblock; returns whether the whole pageblock is kept now.
    #[inline]
    pub(crate) fn keep(&mut self, memory: &Memory, pfn: Pfn, count: u32, zeroed: bool) -> bool {
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

    /// Takes the dirty frames of a pageblock, and returns them.
    #[inline(never)]
    pub(crate) fn isolate_dirty(&mut self, memory: &Memory, index: PageblockIndex) -> FrameBits {
        let pageblock = memory.pageblocks().at(index);
        let dirty = pageblock.dirty_extents();
        let clean = pageblock.extents().without(dirty);
        pageblock.keep_only(clean);
        self.free -= dirty.count();
        self.dirty -= dirty.count();
        self.set_longest(memory, index, clean.longest_extent());
        dirty
    }

    /// Takes all frames of a pageblock.
    #[inline(never)]
    pub(crate) fn give_up(&mut self, memory: &Memory, index: PageblockIndex) {
        let pageblock = memory.pageblocks().at(index);
        self.free -= pageblock.extents().count();
        self.dirty -= pageblock.dirty_extents().count();
        pageblock.keep_only(FrameBits::NONE);
        self.set_longest(memory, index, 0);
    }

    fn set_longest(&mut self, memory: &Memory, index: PageblockIndex, longest: u32) {
        let pageblock = memory.pageblocks().at(index);
        let (from, to) = (list_of(pageblock.longest_extent()), list_of(longest));
        pageblock.set_longest_extent(longest);
        if from == to {
            return;
        }
        let links = memory.pageblocks().extent_links();
        if let Some(list) = from {
            self.lists[list].remove(&links, index);
            if self.lists[list].is_empty() {
                self.filled &= !(1 << list);
            }
        }
        if let Some(list) = to {
            self.lists[list].push_front(&links, index);
            self.filled |= 1 << list;
        }
    }

    /// A pageblock whose longest extent is, to within `STEP` frames, the longest of the zone.
    pub(crate) fn longest(&self) -> Option<PageblockIndex> {
        self.lists[self.filled.checked_ilog2()? as usize].first()
    }

    /// Checks each pageblock by `check`.
    pub(crate) fn each(
        &self,
        memory: &Memory,
        check: impl Fn(PageblockIndex) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let links = memory.pageblocks().extent_links();
        for list in &self.lists {
            list.validate_front(&links, &check)?;
        }
        Ok(())
    }

    pub(crate) fn validate(&self, memory: &Memory) -> Result<(), Broken> {
        let (mut free, mut dirty) = (0, 0);
        let (all, links) = (Check::of("extents"), memory.pageblocks().extent_links());
        for (number, list) in self.lists.iter().enumerate() {
            let is_filled = self.filled >> number & 1 == 1;
            all.at(number as u64).that(is_filled != list.is_empty(), "bit c of filled = list c")?;
            list.validate_front(&links, |index| {
                let (pageblock, listed) = (memory.pageblocks().at(index), all.at(index.0));
                let (extents, longest) = (pageblock.extents(), pageblock.longest_extent());
                let is_movable = pageblock.migratetype() == MigrateType::Movable;
                listed.equal(longest, extents.longest_extent(), "longest_extent = that of bits")?;
                listed
                    .that(list_of(longest) == Some(number), "list = min(longest_extent / 8, 63)")?;
                listed
                    .that(is_movable, "migratetype of a pageblock that keeps frames = Movable")?;
                listed
                    .that(longest < PAGEBLOCK_FRAMES, "a pageblock keeps fewer than all frames")?;
                free += extents.count();
                dirty += pageblock.dirty_extents().count();
                Ok(())
            })?;
        }
        all.equal(free, self.free, "free = sum of |extents|")?;
        all.equal(dirty, self.dirty, "dirty = sum of |dirty_extents|")
    }
}
