//! The bytes that all caches of a stack hold beyond what is in use, and their bounds.
//!
//! The process already has the memory of objects in barns and the free memory of zones. Both go
//! back to the system after a while without use. Until then barns may hold much. But a request that
//! takes memory that was never touched causes *pressure*: it also shrinks the barns to a lower
//! bound ([`CacheLimits::barns_pressed`]).
//!
//! The room of arrays is bounded for each slot and for all slots, because a machine may have many
//! CPUs: see [`CacheLimits::rooms`]. The common bound grows with the slots in use and the heap.
//!
//! Equations, while no thread is at work: `barns = sum of bytes that barns have announced`;
//! `empty = sum over caches of empty slabs * bytes of a slab`, without loose caches; their sum is
//! `loose`.

use super::cache::Cache;
use crate::frame::FRAME_BYTES;
use crate::zone::Zones;
use quarry_sys::percpu::{Limits, SlotArea, SlotIndex};
use quarry_sys::primitive::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Bytes that barns may always hold without pressure: as many idle ones start the reclaim thread.
const BARNS_LEAST: usize = 32 << 20;
/// Without pressure, barns may hold the bytes in use divided by this.
const BARNS_SHARE: usize = 8;
/// Bytes that barns may hold under pressure. (With 8 MiB, a 50 MiB program took 5 % more memory.)
const PRESSED_LEAST: usize = 2 << 20;
/// Under pressure, barns may hold the bytes in use divided by this.
const PRESSED_SHARE: usize = 32;
/// Maximum room of the arrays of one slot. The narrow arrays of all classes of `malloc` take 12
/// MiB. With a bound of 8 MiB, a program that uses all classes at random was a fifth slower.
pub(super) const SLOT_MOST: usize = 16 << 20;
/// Room that the arrays of a slot may always have, even if other slots use up the common bound.
const SLOT_LEAST: usize = 256 << 10;
/// Room that slots in use may have on average, if all of it is no more than the bytes in use
/// divided by [`SLOTS_SHARE`]; the arrays hold about half of their room. (Where 16 CPUs shared what
/// two have, each missed its arrays ten times as often. On 16 simulated CPUs `mixed` takes 0.91 of
/// the time with 4 MiB, at 1.03 of the peak; with 6 MiB 0.89, at 1.11.)
const SLOT_SHARE: usize = 4 << 20;
const SLOTS_SHARE: usize = 3;
/// Bytes of empty slabs that all caches together may always hold.
const EMPTY_LEAST: usize = 2 << 20;
/// All caches together may hold more empty slabs, up to the bytes in use divided by this.
const EMPTY_SHARE: usize = 128;

/// In a cache line of its own: slow paths of all CPUs read it.
#[repr(align(64))]
struct Barns(AtomicUsize);

/// Bytes that all caches of a stack hold beyond objects in use.
pub struct CacheLimits {
    barns: Barns,
    empty: AtomicUsize,
    loose: AtomicUsize,
    turn: AtomicUsize,
    crowded: AtomicU32,
    /// As many CPUs may park objects; 0 for all.
    cpus: AtomicU32,
}

impl CacheLimits {
    /// Counts of 0.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            barns: Barns(AtomicUsize::new(0)),
            empty: AtomicUsize::new(0),
            loose: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            crowded: AtomicU32::new(0),
            cpus: AtomicU32::new(0),
        }
    }

    /// From now on all CPUs together park at most what `cpus` CPUs would: those of a process whose
    /// quota of CPU time is far below them. `None` is no bound.
    pub fn bound_cpus(&self, cpus: Option<u32>) {
        let cpus = cpus.map_or(0, |cpus| cpus.max(1));
        if self.cpus.load(Relaxed) != cpus {
            self.cpus.store(cpus, Relaxed);
        }
    }

    /// CPUs that use the heap, as far as the bound goes.
    pub(super) fn cpus(&self, area: &SlotArea) -> usize {
        match (area.awake_slots(), self.cpus.load(Relaxed) as usize) {
            (awake, 0) => awake,
            (awake, most) => awake.clamp(1, most),
        }
    }

    /// Bytes of objects in barns, as announced.
    #[must_use]
    pub fn barns(&self) -> usize {
        // `slam` counts without a lock, so bytes may be subtracted before they are added.
        (self.barns.0.load(Relaxed) as isize).max(0) as usize
    }

    /// Bytes of empty slabs.
    #[must_use]
    pub fn empty(&self) -> usize {
        (self.empty.load(Relaxed) as isize).max(0) as usize
    }

    /// Bytes of empty slabs of loose caches.
    pub(super) fn loose(&self) -> usize {
        self.loose.load(Relaxed)
    }

    /// Maximum number of bytes that barns may hold now. Near the limit of the budget this is little
    /// more than the bound under pressure, because objects in barns count as used.
    #[must_use]
    pub fn barns_most(zones: &Zones) -> usize {
        Self::within_limit(zones, 0)
    }

    /// The bytes in use divided by [`BARNS_SHARE`], at least `least` and [`BARNS_LEAST`], as far as
    /// the limit of the budget allows.
    fn within_limit(zones: &Zones, least: usize) -> usize {
        let budget = zones.budget();
        let left = budget.limit().saturating_sub(budget.used()) as usize * FRAME_BYTES;
        let most = share(zones, BARNS_SHARE).max(BARNS_LEAST).max(least);
        most.min(Self::barns_pressed(zones) + left / 2)
    }

    /// Bounds of the room of arrays: all together may have as much as barns may hold, or more if
    /// many CPUs use the heap. Where fewer CPUs are to park than do, each gets a part of the share.
    #[inline(never)]
    pub(super) fn rooms(&self, zones: &Zones, area: &SlotArea) -> Limits {
        let cpus = self.cpus(area);
        let of_slots = cpus * SLOT_SHARE;
        let all = Self::within_limit(zones, of_slots.min(share(zones, SLOTS_SHARE)));
        if self.cpus.load(Relaxed) == 0 {
            return Limits { slot: SLOT_MOST, all, least: SLOT_LEAST, ..Limits::NONE };
        }
        let awake = area.awake_slots().max(1);
        let (slot, least) = (of_slots / awake, cpus * SLOT_LEAST / awake);
        Limits { slot, all: all.min(of_slots), least, ..Limits::NONE }
    }

    /// Maximum number of bytes that barns may hold under pressure.
    #[must_use]
    pub fn barns_pressed(zones: &Zones) -> usize {
        share(zones, PRESSED_SHARE).max(PRESSED_LEAST)
    }

    pub(super) fn is_empty_enough(&self, zones: &Zones) -> bool {
        self.empty() + self.loose() >= share(zones, EMPTY_SHARE).max(EMPTY_LEAST)
    }

    /// Counts a change of the bytes in a barn.
    pub fn barn_changed(&self, before: usize, after: usize) {
        self.barns.0.fetch_add(after.wrapping_sub(before), Relaxed);
    }

    pub(super) fn empty_changed(&self, cache: &Cache, before: u32, after: u32) {
        if before != after {
            let slabs = (after as usize).wrapping_sub(before as usize);
            let sum = if cache.id().place().is_some() { &self.loose } else { &self.empty };
            sum.fetch_add(slabs.wrapping_mul(cache.order().bytes()), Relaxed);
        }
    }

    /// Notes that an array of `slot` was refused room. The next reclaim may then take room from
    /// another slot.
    pub(super) fn note_refused(&self, zones: &Zones, area: &SlotArea, slot: SlotIndex) {
        let is_full = area.all_room() + SLOT_LEAST > self.rooms(zones, area).all;
        let is_poor = area.slot_room(slot) <= 2 * SLOT_LEAST;
        if is_full && is_poor && self.crowded.load(Relaxed) == 0 {
            self.crowded.store(1, Relaxed);
        }
    }

    /// Returns whether a slot with little room was refused more room since the last call.
    pub(super) fn was_crowded(&self) -> bool {
        self.crowded.load(Relaxed) != 0 && self.crowded.swap(0, Relaxed) != 0
    }

    /// Returns a running number. Modulo the number of caches, it tells which cache gives next.
    pub(super) fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Relaxed)
    }
}

fn share(zones: &Zones, part: usize) -> usize {
    zones.budget().used() as usize * FRAME_BYTES / part
}

#[cfg(all(test, not(quarry_model)))]
mod tests {
    use super::*;

    #[test]
    fn what_went_may_be_announced_before_what_came() {
        let limits = CacheLimits::new();
        limits.barn_changed(64 << 10, 0);
        assert_eq!(limits.barns(), 0, "not the largest number");
        limits.barn_changed(0, 96 << 10);
        assert_eq!(limits.barns(), 32 << 10);
    }
}
