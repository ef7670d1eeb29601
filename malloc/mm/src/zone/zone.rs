//! One zone: the free memory of one node, under one lock.
//!
//! Only through [`Locked`] can the state of a zone change. A critical section ends with the drop of
//! its `Locked`, which publishes a copy of the counts; other threads read it without the lock. As
//! in the kernel, requests test watermarks against this copy before they take the lock. So a
//! request may go below a mark by the frames that others take between its test and its lock.
//!
//! Invariant: while the lock is free, `Published` agrees with `State`, field by field, and
//! `lowest_dirty` is at most the present number of dirty frames.

use super::ask::{AllocFlags, Ask};
use super::extents::Extents;
use super::free_area::{FreeAreas, smallest_filled};
use super::stats::{Counts, ZoneStats};
use super::steps::Steps;
use super::watermark::{Mark, Marks, Watermarks};
use crate::frame::{MIGRATE_TYPES, Memory, MigrateType, NodeId, Order, PCP_TYPES, PageblockIndex};
use core::ops::Deref;
use quarry_sys::lock::{CountedLock, Guard, LockStats};
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

pub(super) struct State {
    pub(super) areas: FreeAreas,
    pub(super) extents: Extents,
    pub(super) counts: Counts,
}

/// In a cache line of its own: each critical section writes it, and slow paths of all CPUs read it.
#[derive(Default)]
#[repr(align(64))]
struct Published {
    /// Frames on the free lists; `dirty` counts those of them that are not known to be zero.
    free: AtomicU32,
    dirty: AtomicU32,
    /// The fewest dirty frames, extents included, since the last [`Zone::take_lowest_dirty`].
    lowest_dirty: AtomicU32,
    /// Frames on the free lists of the high-order reserve.
    free_reserved: AtomicU32,
    /// Frames in extents: `{dirty : 32 | all : 32}`.
    in_extents: AtomicU64,
    /// `FreeAreas::filled`.
    filled: AtomicU64,
}

/// The free memory of one node.
#[repr(align(128))]
pub struct Zone {
    node: NodeId,
    pub(super) grows: bool,
    /// True if its pageblocks may be huge pages.
    pub(super) huge: bool,
    state: CountedLock<State>,
    published: Published,
    /// Held while the zone grows.
    pub(super) steps: CountedLock<Steps>,
    /// Held while blocks are off the lists to be purged.
    pub(super) purging: CountedLock<()>,
    /// The pageblock where the last purge gave up after many refusals: the next begins there.
    pub(super) refused_at: AtomicU32,
    /// Frames of the zone's pageblocks. Only [`Locked`] changes this field and the next two.
    managed: AtomicU32,
    /// One more than the highest number that a pageblock of the zone has had.
    end: AtomicU32,
    /// Frames of pageblocks in the high-order reserve.
    reserved: AtomicU32,
    pub(super) marks: Watermarks,
    pub(super) stuck: AtomicBool,
    below_high: AtomicBool,
    /// True while the budget that all zones share is short: see `note_short`.
    pub(super) is_short: AtomicBool,
    /// Number of results of `Zones::reclaiming` that exist and concern this zone.
    pub(super) reclaims: AtomicU32,
}

impl Zone {
    pub(super) fn new(node: NodeId, grows: bool, huge: bool) -> Self {
        Self {
            node,
            grows,
            huge,
            state: CountedLock::new(State {
                areas: FreeAreas::new(),
                extents: Extents::new(),
                counts: Counts::default(),
            }),
            published: Published::default(),
            steps: CountedLock::new(Steps::new()),
            purging: CountedLock::new(()),
            refused_at: AtomicU32::new(0),
            managed: AtomicU32::new(0),
            end: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            marks: Watermarks::default(),
            stuck: AtomicBool::new(false),
            below_high: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            reclaims: AtomicU32::new(0),
        }
    }

    /// The node of the zone.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Frames that belong to the zone.
    #[must_use]
    pub fn managed(&self) -> u32 {
        self.managed.load(Relaxed)
    }

    /// Free frames as of the last critical section, on free lists and in extents.
    #[inline]
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free_on_lists() + self.kept_in_extents()
    }

    #[inline]
    pub(super) fn free_on_lists(&self) -> u32 {
        self.published.free.load(Relaxed)
    }

    #[inline]
    pub(super) fn kept_in_extents(&self) -> u32 {
        self.published.in_extents.load(Relaxed) as u32
    }

    /// Free frames that are not known to be zero, as of the last critical section.
    #[must_use]
    pub fn dirty(&self) -> u32 {
        let on_lists = self.published.dirty.load(Relaxed);
        on_lists + (self.published.in_extents.load(Relaxed) >> 32) as u32
    }

    /// The lowest value of [`dirty`](Self::dirty) since the last call of this function. Requests
    /// have done without that many dirty frames since then.
    #[must_use]
    pub(crate) fn take_lowest_dirty(&self) -> u32 {
        let _held = self.look();
        let dirty = self.dirty();
        self.published.lowest_dirty.swap(dirty, Relaxed).min(dirty)
    }

    /// All pageblocks of the zone lie below this one.
    pub(super) fn end(&self) -> PageblockIndex {
        PageblockIndex(self.end.load(Relaxed))
    }

    /// Frames of pageblocks in the high-order reserve, free or not.
    #[must_use]
    pub fn reserved_high_atomic(&self) -> u32 {
        self.reserved.load(Relaxed)
    }

    pub(super) fn look(&self) -> impl Deref<Target = State> + '_ {
        self.state.lock()
    }

    /// Returns whether the zone stays above `mark` without a block of `order`, judging by the
    /// counts of the last critical section (`__zone_watermark_ok`, Linux 6.x).
    #[inline]
    #[must_use]
    pub fn watermark_ok(&self, order: Order, mark: Mark, flags: AllocFlags) -> bool {
        let levels = Levels {
            free: self.free_on_lists(),
            free_reserved: self.published.free_reserved.load(Relaxed),
            filled: self.published.filled.load(Relaxed),
        };
        levels.are_above(self.marks.effective(mark), order, flags)
    }

    /// Returns whether the zone is above `mark` for a request. Tests the high mark first, and
    /// records whether a zone that cannot grow is below it (`get_page_from_freelist`, Linux 6.7).
    #[inline]
    #[must_use]
    pub(crate) fn admits(&self, ask: &Ask, mark: Mark) -> bool {
        if !self.is_below_high() {
            if self.watermark_ok(ask.order, Mark::High, ask.flags) {
                return true;
            }
            self.set_below_high(!self.can_grow());
        }
        self.watermark_ok(ask.order, mark, ask.flags)
    }

    /// The watermarks without the boost.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.marks.base.get()
    }

    pub(crate) fn clear_boost(&self) {
        self.marks.clear_boost();
    }

    /// Returns whether the zone was below its high mark when it could not grow, or the budget is
    /// short: see [`note_short`](super::Zones::note_short) (`ZONE_BELOW_HIGH`).
    #[inline]
    #[must_use]
    pub fn is_below_high(&self) -> bool {
        self.below_high.load(Relaxed) || self.is_short.load(Relaxed)
    }

    pub(crate) fn set_below_high(&self, below: bool) {
        self.below_high.store(below, Relaxed);
    }

    /// Returns whether memory is being reclaimed for this zone (`ZONE_RECLAIM_ACTIVE`).
    #[inline]
    #[must_use]
    pub fn is_reclaim_active(&self) -> bool {
        self.reclaims.load(Relaxed) != 0
    }

    /// Returns whether the window may still have pageblocks for this zone.
    #[inline]
    pub(crate) fn can_grow(&self) -> bool {
        self.grows && !self.stuck.load(Relaxed)
    }

    /// Waits until purges have put their blocks back. No purge begins until the guard is dropped.
    pub(crate) fn hold_purges(&self) -> Guard<'_, ()> {
        self.purging.lock()
    }

    /// Visits the locks of the zone.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("zone->lock", &self.state);
        visit("zone->steps", &self.steps);
        visit("zone->purging", &self.purging);
    }

    /// A consistent snapshot. Takes the lock; O(lists).
    #[must_use]
    pub fn stats(&self) -> ZoneStats {
        let state = self.look();
        let (areas, extents, counts) = (&state.areas, &state.extents, &state.counts);
        ZoneStats {
            node: self.node(),
            managed: self.managed(),
            free: areas.free() + extents.free(),
            dirty: areas.dirty() + extents.dirty(),
            in_extents: extents.free(),
            reserved_high_atomic: self.reserved_high_atomic(),
            nr_free: core::array::from_fn(|order| {
                MigrateType::ALL.map(|of| areas.nr(Order::new(order as u8), of))
            }),
            marks: self.marks(),
            boost: self.marks.boost(),
            taken: counts.taken,
            put: counts.put,
            fallbacks: counts.fallbacks,
            lock: self.lock_stats(),
        }
    }

    /// Counters of the lock of the zone's state.
    #[must_use]
    pub fn lock_stats(&self) -> LockStats {
        self.state.stats()
    }
}

struct Levels {
    free: u32,
    free_reserved: u32,
    filled: u64,
}

impl Levels {
    /// Returns whether the zone has a block of `order` for the request, and would keep at least
    /// `min` usable frames (fewer with rights in `flags`) after giving that block away.
    #[inline]
    fn are_above(&self, min: u32, order: Order, flags: AllocFlags) -> bool {
        let (mut min, mut unusable) = (min, order.frames() - 1);
        if flags.min_reserve {
            min -= min / 2;
            if flags.non_block {
                min -= min / 4;
            }
        }
        if flags == AllocFlags::default() {
            unusable += self.free_reserved;
        }
        if self.free <= min.saturating_add(unusable) {
            return false;
        }
        let types = if flags.high_atomic { MIGRATE_TYPES } else { PCP_TYPES };
        order == Order::ZERO
            || MigrateType::ALL[..types]
                .iter()
                .any(|of| smallest_filled(self.filled, order, *of).is_some())
    }
}

#[derive(Clone, Copy)]
pub(super) struct ZoneRef<'a> {
    pub(super) zone: &'a Zone,
    pub(super) memory: &'a Memory,
}

impl Deref for ZoneRef<'_> {
    type Target = Zone;

    #[inline]
    fn deref(&self) -> &Zone {
        self.zone
    }
}

impl<'a> ZoneRef<'a> {
    #[inline]
    pub(super) fn lock(self) -> Locked<'a> {
        let Self { zone, memory } = self;
        Locked { zone, memory, state: zone.state.lock() }
    }
}

/// A zone whose lock is held: see the head of this file.
pub(super) struct Locked<'a> {
    pub(super) zone: &'a Zone,
    pub(super) memory: &'a Memory,
    pub(super) state: Guard<'a, State>,
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        let (published, State { areas, extents, .. }) = (&self.zone.published, &*self.state);
        published.free.store(areas.free(), Relaxed);
        published.dirty.store(areas.dirty(), Relaxed);
        published.free_reserved.store(areas.free_of(MigrateType::HighAtomic), Relaxed);
        published.filled.store(areas.filled(), Relaxed);
        let in_extents = u64::from(extents.dirty()) << 32 | u64::from(extents.free());
        published.in_extents.store(in_extents, Relaxed);
        let dirty = areas.dirty() + extents.dirty();
        if dirty < published.lowest_dirty.load(Relaxed) {
            published.lowest_dirty.store(dirty, Relaxed);
        }
    }
}

impl Locked<'_> {
    pub(super) fn watermark_ok(&self, order: Order, mark: Mark, flags: AllocFlags) -> bool {
        let areas = &self.state.areas;
        let levels = Levels {
            free: areas.free(),
            free_reserved: areas.free_of(MigrateType::HighAtomic),
            filled: areas.filled(),
        };
        levels.are_above(self.zone.marks.effective(mark), order, flags)
    }

    pub(super) fn gain(&mut self, frames: u32, end: PageblockIndex) {
        self.zone.managed.store(self.zone.managed() + frames, Relaxed);
        self.zone.end.store(self.zone.end().max(end).0, Relaxed);
    }

    pub(super) fn lose(&mut self, frames: u32) {
        self.zone.managed.store(self.zone.managed() - frames, Relaxed);
    }

    pub(super) fn set_reserved(&mut self, frames: u32) {
        self.zone.reserved.store(frames, Relaxed);
    }
}
