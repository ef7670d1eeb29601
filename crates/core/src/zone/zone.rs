//! One zone: the free memory of one node, under one lock.
//!
//! What is read without the lock (free frames, filled lists, marks) is a copy published at the end
//! of each critical section; requests test watermarks against it before they take the lock, as the
//! kernel does, and so may pass a mark by as much as runs at the same time.

use super::buddy::for_each_part;
use super::fallback::{FallbackCounts, Mode, ZoneView};
use super::free_area::{Block, End, FreeAreas, ORDERS, smallest_filled};
use super::grow::Growth;
use super::watermark::{Mark, Marks, Watermarks};
use super::{AllocFlags, Ask, Destination};
use crate::frame::{
    KindSet, MAX_ORDER, MIGRATE_TYPES, Memory, MigrateType, NodeId, Order, PAGEBLOCK_FRAMES,
    PCP_TYPES, Pageblock, PageblockIndex, PageblockTag, Pfn,
};
use quarry_sys::lock::{CountedLock, Guard, LockStats};
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Calls and blocks of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Critical sections.
    pub calls: u64,
    /// Blocks moved in them.
    pub blocks: u64,
    /// Frames of those blocks.
    pub frames: u64,
}

impl Traffic {
    /// One more critical section, which moved `blocks` blocks of `frames` frames each.
    #[inline]
    fn add(&mut self, blocks: u64, frames: u32) {
        self.calls += 1;
        self.blocks += blocks;
        self.frames += blocks * u64::from(frames);
    }
}

/// What the lock guards.
pub(super) struct Locked {
    pub(super) areas: FreeAreas,
    taken: Traffic,
    put: Traffic,
}

impl Locked {
    #[inline]
    pub(super) fn count_taken(&mut self, blocks: u64, frames: u32) {
        self.taken.add(blocks, frames);
    }

    #[inline]
    pub(super) fn count_put(&mut self, blocks: u64, frames: u32) {
        self.put.add(blocks, frames);
    }
}

/// The free memory of one node.
#[repr(align(128))]
pub struct Zone {
    pub(super) node: NodeId,
    pub(super) grows: bool,
    huge: bool,
    touched_whole: KindSet,
    inside: CountedLock<Locked>,
    pub(super) growth: CountedLock<Growth>,
    /// Held while blocks are off the lists to be purged.
    pub(super) purging: CountedLock<()>,
    /// Pageblock at which the next purge begins, because much in front of it was refused.
    pub(super) refused_at: AtomicU32,
    managed: AtomicU32,
    free: AtomicU32,
    dirty: AtomicU32,
    free_reserved: AtomicU32,
    /// Frames kept as extents: `{dirty : 32 | all : 32}`.
    in_extents: AtomicU64,
    filled: AtomicU64,
    /// Past the last pageblock of the zone.
    end: AtomicU32,
    pub(super) isolated: AtomicU32,
    pub(super) reserved: AtomicU32,
    pub(super) marks: Watermarks,
    /// The last attempt to grow failed.
    pub(super) stuck: AtomicBool,
    below_high: AtomicBool,
    reclaim_active: AtomicBool,
}

/// A snapshot of a zone, all of it from one hold of its lock.
#[derive(Clone, Debug)]
pub struct ZoneStats {
    /// Its node.
    pub node: NodeId,
    /// Frames that belong to it.
    pub managed: u32,
    /// Free frames: on its lists and kept as extents.
    pub free: u32,
    /// Free frames that are not known to be zero: what a purge can give back.
    pub dirty: u32,
    /// Those of them that are kept for requests of an exact number of frames.
    pub in_extents: u32,
    /// Frames of pageblocks reserved for high-order atomic requests.
    pub reserved_high_atomic: u32,
    /// Free blocks by order and migratetype: a row of `buddyinfo` is the sum over the types.
    pub nr_free: [[u32; MIGRATE_TYPES]; ORDERS],
    /// The watermarks without the boost.
    pub marks: Marks,
    /// What the marks are raised by now.
    pub boost: u32,
    /// Blocks taken: to be handed out or for per-CPU lists.
    pub taken: Traffic,
    /// Blocks put back.
    pub put: Traffic,
    /// Requests served from other types' blocks.
    pub fallbacks: FallbackCounts,
    /// Counters of the lock.
    pub lock: LockStats,
}

impl Zone {
    pub(super) const fn new(node: NodeId, grows: bool, huge: bool) -> Self {
        Self {
            node,
            grows,
            huge,
            touched_whole: KindSet::new(),
            inside: CountedLock::new(Locked {
                areas: FreeAreas::new(),
                taken: Traffic { calls: 0, blocks: 0, frames: 0 },
                put: Traffic { calls: 0, blocks: 0, frames: 0 },
            }),
            growth: CountedLock::new(Growth::new()),
            purging: CountedLock::new(()),
            refused_at: AtomicU32::new(0),
            managed: AtomicU32::new(0),
            free: AtomicU32::new(0),
            dirty: AtomicU32::new(0),
            free_reserved: AtomicU32::new(0),
            in_extents: AtomicU64::new(0),
            filled: AtomicU64::new(0),
            end: AtomicU32::new(0),
            isolated: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            marks: Watermarks::new(),
            stuck: AtomicBool::new(false),
            below_high: AtomicBool::new(false),
            reclaim_active: AtomicBool::new(false),
        }
    }

    /// Its node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Frames that belong to the zone.
    #[must_use]
    pub fn managed(&self) -> u32 {
        self.managed.load(Relaxed)
    }

    /// Changes how many belong to it. The zone's lock is held.
    pub(super) fn set_managed(&self, frames: u32) {
        self.managed.store(frames, Relaxed);
    }

    /// Free frames, as of the last critical section: on its lists and kept as extents.
    #[inline]
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free_on_lists() + self.kept_in_extents()
    }

    /// Frames on its free lists, as of the last critical section.
    #[inline]
    pub(super) fn free_on_lists(&self) -> u32 {
        self.free.load(Relaxed)
    }

    /// Free frames kept for requests of an exact number, as of the last critical section.
    #[inline]
    #[must_use]
    pub fn kept_in_extents(&self) -> u32 {
        self.in_extents.load(Relaxed) as u32
    }

    /// Free frames that are not known to be zero, as of the last critical section.
    #[must_use]
    pub fn dirty(&self) -> u32 {
        self.dirty.load(Relaxed) + (self.in_extents.load(Relaxed) >> 32) as u32
    }

    /// The pageblocks that the zone may have lie below this one.
    pub(super) fn end(&self) -> PageblockIndex {
        PageblockIndex(self.end.load(Relaxed))
    }

    pub(super) fn lock(&self) -> Guard<'_, Locked> {
        self.inside.lock()
    }

    /// Copies what is read without the lock.
    #[inline]
    pub(super) fn publish(&self, areas: &FreeAreas) {
        self.free.store(areas.free(), Relaxed);
        self.dirty.store(areas.dirty(), Relaxed);
        self.free_reserved.store(areas.free_of(MigrateType::HighAtomic), Relaxed);
        self.filled.store(areas.filled(), Relaxed);
        let in_extents = u64::from(areas.extents.dirty) << 32 | u64::from(areas.extents.free);
        self.in_extents.store(in_extents, Relaxed);
    }

    /// Gives the zone the first `frames` frames of pageblocks that were taken for it.
    pub(super) fn add_frames(&self, memory: &Memory, first: PageblockIndex, frames: u32) {
        let mut inside = self.lock();
        let tag = PageblockTag::new(self.node, MigrateType::Movable);
        let last = first.0 + frames.div_ceil(PAGEBLOCK_FRAMES);
        for index in first.0..last {
            memory.pageblocks().at(PageblockIndex(index)).set_tag(tag);
        }
        for (pfn, order) in largest_blocks(first.first(), frames) {
            inside.areas.put(memory, Block { pfn, order, zeroed: true }, End::Tail);
        }
        self.set_managed(self.managed() + frames);
        self.end.store(self.end().0.max(last), Relaxed);
        self.publish(&inside.areas);
    }

    pub(super) fn view<'a>(&'a self, memory: &'a Memory) -> ZoneView<'a> {
        ZoneView {
            memory,
            marks: &self.marks,
            managed: self.managed(),
            huge: self.huge,
            touched_whole: &self.touched_whole,
        }
    }

    /// Kinds of frames that are touched whole by whoever gets them, as a rule.
    pub(crate) fn touched_whole(&self) -> &KindSet {
        &self.touched_whole
    }

    /// Takes up to `count` blocks in one critical section; each goes to `give` with the lock held.
    #[inline]
    pub(super) fn take(
        &self,
        memory: &Memory,
        ask: &Ask,
        count: u32,
        destination: Destination,
        mut give: impl FnMut(Pfn, bool),
    ) -> u32 {
        let view = self.view(memory);
        let mut inside = self.lock();
        let (mut taken, mut mode) = (0, Mode::default());
        while taken < count {
            let Some(block) = take_one(&mut inside.areas, view, ask, &mut mode) else { break };
            let Block { pfn, order, zeroed } = block;
            if ask.migratetype == MigrateType::Movable {
                for_each_part(memory, pfn, order, Pageblock::mark_movable);
            }
            memory.frames().set_state(pfn, destination.state(order, zeroed));
            give(pfn, zeroed);
            taken += 1;
        }
        inside.count_taken(u64::from(taken), ask.order.frames());
        self.publish(&inside.areas);
        taken
    }

    /// Puts blocks back in one critical section; returns the number of frames.
    #[inline]
    pub(super) fn put(&self, memory: &Memory, blocks: impl Iterator<Item = Block>) -> u32 {
        let mut inside = self.lock();
        let (mut count, mut frames) = (0u64, 0u32);
        for block in blocks {
            inside.areas.put(memory, block, End::Head);
            count += 1;
            frames += block.order.frames();
        }
        inside.put.calls += 1;
        inside.put.blocks += count;
        inside.put.frames += u64::from(frames);
        self.publish(&inside.areas);
        frames
    }

    /// Whether a block of `order` may be taken without the zone falling to `mark`
    /// (`__zone_watermark_ok`, Linux 6.x).
    #[inline]
    #[must_use]
    pub fn watermark_ok(&self, order: Order, mark: Mark, flags: AllocFlags) -> bool {
        let mut min = self.marks.effective(mark);
        let mut unusable = order.frames() - 1;
        if flags.min_reserve {
            min -= min / 2;
            if flags.non_block {
                min -= min / 4;
            }
        }
        if flags == AllocFlags::default() {
            unusable += self.free_reserved.load(Relaxed);
        }
        if self.free_on_lists() <= min.saturating_add(unusable) {
            return false;
        }
        let filled = self.filled.load(Relaxed);
        let types = if flags.high_atomic { MIGRATE_TYPES } else { PCP_TYPES };
        order == Order::ZERO
            || MigrateType::ALL[..types]
                .iter()
                .any(|of| smallest_filled(filled, order, *of).is_some())
    }

    /// The watermarks without the boost.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.marks.marks()
    }

    /// Lowers the marks after memory has been given back.
    pub fn clear_boost(&self) {
        self.marks.clear_boost();
    }

    /// Whether the zone was found below its high mark and cannot grow (`ZONE_BELOW_HIGH`).
    #[inline]
    #[must_use]
    pub fn is_below_high(&self) -> bool {
        self.below_high.load(Relaxed)
    }

    pub(crate) fn set_below_high(&self, below: bool) {
        self.below_high.store(below, Relaxed);
    }

    /// Whether memory is being reclaimed for this zone (`ZONE_RECLAIM_ACTIVE`).
    #[inline]
    #[must_use]
    pub fn is_reclaim_active(&self) -> bool {
        self.reclaim_active.load(Relaxed)
    }

    /// Whether the window may still have pageblocks for this zone.
    #[inline]
    pub(crate) fn can_grow(&self) -> bool {
        self.grows && !self.stuck.load(Relaxed)
    }

    /// Waits until blocks that are off the lists to be purged have come back; no others leave the
    /// lists for that while the guard lives.
    pub(crate) fn hold_purges(&self) -> Guard<'_, ()> {
        self.purging.lock()
    }

    /// Tells the per-CPU lists to keep less while memory is being reclaimed.
    pub fn set_reclaim_active(&self, active: bool) {
        self.reclaim_active.store(active, Relaxed);
    }

    /// Counters of its lock.
    #[must_use]
    pub fn lock_stats(&self) -> LockStats {
        self.inside.stats()
    }

    /// A consistent snapshot. Takes the lock; O(lists).
    #[must_use]
    pub fn stats(&self) -> ZoneStats {
        let inside = self.lock();
        let areas = &inside.areas;
        ZoneStats {
            node: self.node,
            managed: self.managed(),
            free: areas.free() + areas.extents.free,
            dirty: areas.dirty() + areas.extents.dirty,
            in_extents: areas.extents.free,
            reserved_high_atomic: self.reserved_high_atomic(),
            nr_free: core::array::from_fn(|order| {
                MigrateType::ALL.map(|of| areas.nr(Order::new(order as u8), of))
            }),
            marks: self.marks(),
            boost: self.marks.boost(),
            taken: inside.taken,
            put: inside.put,
            fallbacks: areas.fallbacks,
            lock: self.inside.stats(),
        }
    }

    /// Pageblocks of the zone by migratetype: the second table of `pagetypeinfo`. O(pageblocks).
    #[must_use]
    pub fn pageblocks_by_type(&self, memory: &Memory) -> [u32; MIGRATE_TYPES] {
        let mut counts = [0; MIGRATE_TYPES];
        for index in 0..self.end().0 {
            let tag = memory.pageblocks().at(PageblockIndex(index)).tag();
            if tag.node() == Some(self.node) {
                counts[tag.migratetype().index()] += 1;
            }
        }
        counts
    }
}

/// Takes one block from the lists that the request may use.
#[inline]
fn take_one(
    areas: &mut FreeAreas,
    view: ZoneView<'_>,
    ask: &Ask,
    mode: &mut Mode,
) -> Option<Block> {
    if ask.flags.high_atomic {
        let reserved = areas.take_smallest(view.memory, ask.order, MigrateType::HighAtomic);
        if reserved.is_some() {
            return reserved;
        }
    }
    let block = areas.take_any(view, ask.order, ask.migratetype, mode);
    if block.is_none() && ask.flags.non_block {
        return areas.take_smallest(view.memory, ask.order, MigrateType::HighAtomic);
    }
    block
}

/// The largest aligned blocks that `count` frames from `first` on form, in ascending order.
pub fn largest_blocks(first: Pfn, count: u32) -> impl Iterator<Item = (Pfn, Order)> + Clone {
    let (mut pfn, end) = (first, first.plus(count));
    core::iter::from_fn(move || {
        let left = end.0 - pfn.0;
        let fits = left.checked_ilog2()?.min(pfn.0.trailing_zeros()).min(u32::from(MAX_ORDER));
        let block = (pfn, Order::new(fits as u8));
        pfn = pfn.plus(block.1.frames());
        Some(block)
    })
}
