//! Shelves: pageblocks that the zones lend to groups of CPUs, for extents, where CPUs wait for each
//! other at the lock of a zone.
//!
//! The frames of a pageblock on a shelf count as used. Those that no one has are extents of the
//! shelf, under its lock; they go back to the shelf, whichever CPU frees them. A wholly free
//! pageblock goes back to its zone, and so do the extents of a shelf that has many, or was not used
//! for a while.
//!
//! Shelf `n` belongs to slot `n`, and serves the slots `n mod count`. There is none until the lock
//! of a zone is contended, then two, and twice as many when one of those locks is contended.
//!
//! Invariants: a pageblock on a shelf is movable, and the zone has no extent in it. Its descriptor
//! names the shelf, and changes only under the lock of that shelf, and then that of the zone.

use crate::frame::{
    FrameBits, MAX_NODES, Memory, MigrateType, NodeId, Order, OsArray, PAGEBLOCK_FRAMES,
    PageblockIndex, Pfn, fresh_zero,
};
use crate::zone::{AllocFlags, Ask, Block, Destination, Extents, Lent, Mark, Page, Zones};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{Contention, CountedLock, Guard};
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU32, Ordering::Relaxed};

/// Maximum number of shelves of a node.
const MOST_SHELVES: u32 = 32;
/// Fewer CPUs have no shelves.
const FEWEST_SLOTS: u32 = 4;
/// Free frames that a shelf may keep, or if that is more, a 16th of the frames in use, for all
/// shelves together.
const MOST_FREE: u32 = 2 * PAGEBLOCK_FRAMES;
const FREE_SHARE: u32 = 16;

fresh_zero! {
    struct State {
        extents: Extents,
        seen: Contention,
        /// Requests and frees since the last look.
        uses: u32,
    }

    #[repr(align(64))]
    struct Shelf {
        state: CountedLock<State>,
        /// Free frames, for readers without the lock.
        free: AtomicU32,
    }
}

/// The shelves of all nodes.
pub(super) struct Shelves {
    /// Shelf `n` of node `m` is number `m * each + n`.
    all: Option<OsArray<Shelf>>,
    each: u32,
    /// Shelves in use of each node: 0, or a power of two.
    count: AtomicU32,
    /// The lock of each zone.
    seen: [Contention; MAX_NODES],
}

impl Shelves {
    pub(super) fn reserve(os: &'static dyn Os, slots: u32, nodes: u8) -> OsResult<Self> {
        let each = if slots < FEWEST_SLOTS { 0 } else { (slots / 2).min(MOST_SHELVES) };
        let each = if each > 0 { 1 << each.ilog2() } else { 0 };
        let count = (each * u32::from(nodes)) as usize;
        let all = if count > 0 { Some(OsArray::zeroed(os, count)?) } else { None };
        let seen = [const { Contention::new() }; MAX_NODES];
        Ok(Self { all, each, count: AtomicU32::new(0), seen })
    }

    fn all(&self) -> impl Iterator<Item = (u32, &Shelf)> {
        let all = self.all.iter().filter(|_| self.is_open());
        all.flat_map(|all| (0..all.len()).map(|number| (number as u32, all.at(number))))
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    fn shelf(&self, number: u32) -> Option<&Shelf> {
        Some(self.all.as_ref()?.at(number as usize))
    }

    /// The shelf that serves a slot.
    #[inline]
    fn of(&self, slot: SlotIndex, node: NodeId) -> Option<u32> {
        match self.count.load(Relaxed) {
            0 => None,
            count => Some(u32::from(node.0) * self.each + (slot.0 & (count - 1))),
        }
    }

    /// Opens shelves if the lock of a zone was contended lately.
    #[inline]
    pub(super) fn look(&self, zones: &Zones, node: NodeId) {
        let seen = &self.seen[usize::from(node.0)];
        if self.each > 0 && seen.is_high(zones.zone(node).lock_stats()) {
            self.open_more();
        }
    }

    #[cold]
    pub(super) fn open_more(&self) {
        let count = self.count.load(Relaxed);
        let more = (2 * count).max(2);
        if more <= self.each {
            let _ = self.count.compare_exchange(count, more, Relaxed, Relaxed);
        }
    }

    /// Takes `count` frames for a slot: from its shelf, from others, or from a pageblock that the
    /// zone lends now. `None` if the zone has none to spare, or there are no shelves.
    #[inline(never)]
    pub(super) fn take(
        &self,
        zones: &Zones,
        (slot, node): (SlotIndex, NodeId),
        (count, align): (u32, Order),
    ) -> Option<Page> {
        let own = self.of(slot, node)?;
        let (shelf, memory) = (self.shelf(own)?, zones.memory());
        let mut held = shelf.lock(self);
        let page = held.take(memory, count, align);
        if page.is_some() {
            return page;
        }
        drop(held);
        let first = u32::from(node.0) * self.each;
        let others = (first..first + self.each).filter(|number| *number != own);
        for other in others.filter_map(|number| self.shelf(number)) {
            if other.free.load(Relaxed) >= count
                && let Some(mut held) = other.try_lock(self)
                && let Some(page) = held.take(memory, count, align)
            {
                return Some(page);
            }
        }
        if zones.budget().is_below(Mark::High) {
            return None;
        }
        let mut held = shelf.lock(self);
        if let Some(Lent { index, bits, dirty }) = zones.lend(node, own, count) {
            held.keep_bits(memory, index, bits.without(dirty), true);
            held.keep_bits(memory, index, dirty, false);
            return held.take(memory, count, align);
        }
        drop(held);
        self.lend_whole(zones, (node, own), (count, align))
    }

    /// Puts a wholly free pageblock of the zone on a shelf, and takes frames of it.
    #[inline(never)]
    fn lend_whole(
        &self,
        zones: &Zones,
        (node, own): (NodeId, u32),
        (count, align): (u32, Order),
    ) -> Option<Page> {
        let flags = AllocFlags::default();
        let ask = Ask { order: Order::PAGEBLOCK, migratetype: MigrateType::Movable, flags };
        if !zones.zone(node).watermark_ok(ask.order, Mark::Low, flags) {
            return None;
        }
        let (shelf, memory) = (self.shelf(own)?, zones.memory());
        let mut lent = None;
        zones.take(node, &ask, 1, Destination::User, |pfn, zeroed| lent = Some((pfn, zeroed)));
        let (pfn, zeroed) = lent?;
        let pageblock = memory.pageblocks().of(pfn);
        if pageblock.migratetype() != MigrateType::Movable {
            let block = Block { pfn, order: Order::PAGEBLOCK, zeroed };
            zones.put(node, core::iter::once(block));
            return None;
        }
        let mut held = shelf.lock(self);
        pageblock.set_shelf(Some(own));
        held.keep(memory, pfn, PAGEBLOCK_FRAMES, zeroed);
        held.take(memory, count, align)
    }

    /// Takes the `count` frames from `pfn` on, if they are free on a shelf.
    pub(super) fn take_at(&self, zones: &Zones, pfn: Pfn, count: u32) -> bool {
        let memory = zones.memory();
        let held = self.lock_owner(zones, pfn);
        held.is_some_and(|mut held| held.state.extents.take_at(memory, pfn, count))
    }

    /// Puts frames back on the shelf that has their pageblock; returns whether there is one.
    #[inline(never)]
    pub(super) fn put(&self, zones: &Zones, node: NodeId, pfn: Pfn, count: u32) -> bool {
        let Some(mut held) = self.lock_owner(zones, pfn) else { return false };
        let is_whole = held.keep(zones.memory(), pfn, count, false);
        let index = match is_whole {
            true => Some(pfn.pageblock()),
            false => self.surplus(zones, &held),
        };
        if let Some(index) = index {
            held.give_back(zones, node, index);
        }
        true
    }

    /// The pageblock that a shelf gives back, if it keeps too much.
    fn surplus(&self, zones: &Zones, held: &Held<'_>) -> Option<PageblockIndex> {
        let extents = &held.state.extents;
        if extents.free() <= MOST_FREE {
            return None;
        }
        let share = zones.budget().used() / FREE_SHARE / self.count.load(Relaxed).max(1);
        if extents.free() > share { extents.longest() } else { None }
    }

    /// Locks the shelf that has the pageblock of a frame.
    #[inline(never)]
    fn lock_owner(&self, zones: &Zones, pfn: Pfn) -> Option<Held<'_>> {
        let pageblock = zones.memory().pageblocks().of(pfn);
        loop {
            let owner = pageblock.shelf()?;
            let held = self.shelf(owner)?.lock(self);
            if pageblock.shelf() == Some(owner) {
                return Some(held);
            }
        }
    }

    /// Gives the extents of a slot's shelf back to the zone: all, or with `idle` those of a shelf
    /// that was not used since the last such call. Returns whether there were any.
    #[inline(never)]
    pub(super) fn drain(&self, zones: &Zones, slot: SlotIndex, idle: bool) -> bool {
        let mut any = false;
        for node in zones.all().map(|zone| zone.node()) {
            let Some(shelf) = self.of_its_own(slot, node) else { continue };
            if idle && core::mem::take(&mut shelf.lock(self).state.uses) > 1 {
                continue;
            }
            loop {
                let held = shelf.lock(self);
                let Some(index) = held.state.extents.longest() else { break };
                held.give_back(zones, node, index);
                any = true;
            }
            shelf.lock(self).state.uses = 0;
        }
        any
    }

    fn of_its_own(&self, slot: SlotIndex, node: NodeId) -> Option<&Shelf> {
        let is_one = self.is_open() && slot.0 < self.each;
        if is_one { self.shelf(u32::from(node.0) * self.each + slot.0) } else { None }
    }

    /// Free frames of a slot's shelf.
    pub(super) fn frames(&self, slot: SlotIndex, node: NodeId) -> u32 {
        self.of_its_own(slot, node).map_or(0, |shelf| shelf.free.load(Relaxed))
    }

    pub(super) fn any(&self) -> bool {
        self.all().any(|(_, shelf)| shelf.free.load(Relaxed) > 0)
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.all().for_each(|(_, shelf)| visit("zone->shelf", &shelf.state));
    }

    /// Checks the extents of all shelves. Fails with the first equation that does not hold.
    pub(super) fn validate(&self, zones: &Zones) -> Result<(), Broken> {
        let pageblocks = zones.memory().pageblocks();
        let mut sum = 0;
        for (number, shelf) in self.all() {
            let held = shelf.lock(self);
            held.state.extents.validate(zones.memory())?;
            held.state.extents.each(zones.memory(), |index| {
                let owner = pageblocks.at(index).shelf();
                let check = Check::of("shelf").at(index.0);
                check.that(owner == Some(number), "a pageblock names the shelf that has it")
            })?;
            sum += held.state.extents.free();
        }
        let lent = (0..pageblocks.count()).map(PageblockIndex).map(|index| pageblocks.at(index));
        let found: u32 =
            lent.filter(|it| it.shelf().is_some()).map(|it| it.extents().count()).sum();
        Check::of("shelves").equal(sum, found, "free frames of shelves = bits of their pageblocks")
    }
}

/// A shelf whose lock is held. Its drop publishes the free frames.
struct Held<'a> {
    shelf: &'a Shelf,
    state: Guard<'a, State>,
}

impl Shelf {
    #[inline(never)]
    fn lock<'a>(&'a self, shelves: &Shelves) -> Held<'a> {
        self.held(self.state.lock(), shelves)
    }

    #[inline(never)]
    fn try_lock<'a>(&'a self, shelves: &Shelves) -> Option<Held<'a>> {
        Some(self.held(self.state.try_lock()?, shelves))
    }

    #[inline]
    fn held<'a>(&'a self, mut state: Guard<'a, State>, shelves: &Shelves) -> Held<'a> {
        state.uses = state.uses.saturating_add(1);
        let stats = self.state.stats();
        if state.seen.is_high(stats) {
            shelves.open_more();
        }
        Held { shelf: self, state }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.shelf.free.store(self.state.extents.free(), Relaxed);
    }
}

impl Held<'_> {
    #[inline(never)]
    fn take(&mut self, memory: &Memory, count: u32, align: Order) -> Option<Page> {
        self.state.extents.take(memory, count, align.frames())
    }

    #[inline(never)]
    fn keep(&mut self, memory: &Memory, pfn: Pfn, count: u32, zeroed: bool) -> bool {
        self.state.extents.keep(memory, pfn, count, zeroed)
    }

    fn keep_bits(&mut self, memory: &Memory, index: PageblockIndex, bits: FrameBits, zeroed: bool) {
        for (first, end) in bits.extents() {
            self.keep(memory, index.first().plus(first), end - first, zeroed);
        }
    }

    /// Takes a pageblock off the shelf, and gives its extents to the zone.
    #[cold]
    #[inline(never)]
    fn give_back(mut self, zones: &Zones, node: NodeId, index: PageblockIndex) {
        let memory = zones.memory();
        let pageblock = memory.pageblocks().at(index);
        let (bits, dirty) = (pageblock.extents(), pageblock.dirty_extents());
        self.state.extents.give_up(memory, index);
        zones.take_back(node, index, (bits, dirty));
    }
}
