//! The memory that all caches of a stack hold beyond what is in use, and its bounds.
//!
//! Objects in barns are memory that this process has already, like free memory of the zones: both
//! go back to the operating system after a while without use. Until another part of the process
//! needs memory, barns cost nothing. So barns may hold much, and are *shrunk* before requests are
//! served from memory that was never touched, down to their bound under pressure (in the kernel,
//! `kswapd` calls shrinkers before a zone is empty).
//!
//! The room of the arrays of CPUs has bounds of its own, for each slot and for all, because a
//! machine with many CPUs has many arrays: see [`CacheLimits::rooms`].
//!
//! Equations, while no thread is at work: `barns` = sum over caches of bytes announced by their
//! barn;
//! `empty` = sum over caches of empty slabs * bytes of a slab.

use crate::frame::FRAME_BYTES;
use crate::zone::Zones;
use quarry_sys::percpu::{Limits, SlotArea, SlotIndex};
use quarry_sys::primitive::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Soft cap on the bytes in barns without pressure; equals the reclaim thread's start threshold.
const BARNS_LEAST: usize = 32 << 20;
/// Without pressure, barns may hold this part of what is in use.
const BARNS_SHARE: usize = 8;
/// Bytes that barns may always hold together. With 8 MiB a program of 50 MiB was larger by a
/// twentieth.
const PRESSED_LEAST: usize = 2 << 20;
/// Barns may always hold this part of what is in use.
const PRESSED_SHARE: usize = 32;
/// Room of the arrays of one slot: the narrow arrays of all classes of `malloc` take 12 MiB, and a
/// program that uses all classes at random was a fifth slower with 8 MiB. On a machine of many CPUs
/// the bound for all slots together decides. (tcmalloc begins with 1.5 MiB for a CPU and lets it
/// take what another one leaves.)
const SLOT_MOST: usize = 16 << 20;
/// Room that the arrays of a slot may always have, even if other slots have much.
const SLOT_LEAST: usize = 256 << 10;
/// Bytes of empty slabs that caches may always hold.
const EMPTY_LEAST: usize = 2 << 20;
/// Empty slabs may be this part of what is in use.
const EMPTY_SHARE: usize = 128;

/// Bytes that all caches of a stack hold beyond what is in use.
pub struct CacheLimits {
    barns: AtomicUsize,
    empty: AtomicUsize,
    turn: AtomicUsize,
    /// True if an array of a slot with little room was refused more since the last look.
    crowded: AtomicU32,
}

impl CacheLimits {
    /// Nothing held.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            barns: AtomicUsize::new(0),
            empty: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            crowded: AtomicU32::new(0),
        }
    }

    /// Bytes of objects in barns, as announced.
    #[must_use]
    pub fn barns(&self) -> usize {
        // Any thread takes a stock of `slam`, without a lock, so the bytes that went may be
        // announced before those that came.
        (self.barns.load(Relaxed) as isize).max(0) as usize
    }

    /// Bytes of slabs without an object in use. Counted outside the locks, so a moment late.
    #[must_use]
    pub fn empty(&self) -> usize {
        // A slab may be counted out before it is counted in.
        (self.empty.load(Relaxed) as isize).max(0) as usize
    }

    /// Most bytes that barns may hold now. Near the limit of the heap, hardly more than under
    /// pressure, because their objects count as used.
    pub(super) fn barns_most(zones: &Zones) -> usize {
        let budget = zones.budget();
        let left = budget.limit().saturating_sub(budget.used()) as usize * FRAME_BYTES;
        let most = share(zones, BARNS_SHARE).max(BARNS_LEAST);
        most.min(Self::barns_pressed(zones) + left / 2)
    }

    /// Bounds of the room of arrays. All arrays together may have as much as barns may hold: both
    /// are the same kind of memory.
    pub(super) fn rooms(zones: &Zones) -> Limits {
        Limits { slot: SLOT_MOST, all: Self::barns_most(zones), least: SLOT_LEAST }
    }

    /// Most bytes that barns may hold under pressure.
    pub(super) fn barns_pressed(zones: &Zones) -> usize {
        share(zones, PRESSED_SHARE).max(PRESSED_LEAST)
    }

    /// Returns whether there are enough empty slabs.
    pub(super) fn is_empty_enough(&self, zones: &Zones) -> bool {
        self.empty() >= share(zones, EMPTY_SHARE).max(EMPTY_LEAST)
    }

    /// Notes that a barn announces another number of bytes.
    pub(super) fn barn_changed(&self, before: usize, after: usize) {
        self.barns.fetch_add(after.wrapping_sub(before), Relaxed);
    }

    /// Notes that the number of empty slabs of `bytes` each has changed.
    pub(super) fn empty_changed(&self, before: u32, after: u32, bytes: usize) {
        if before != after {
            let more = (after as usize).wrapping_sub(before as usize).wrapping_mul(bytes);
            self.empty.fetch_add(more, Relaxed);
        }
    }

    /// Notes that an array of `slot` needed more room and got none. If other slots have the room
    /// that it lacks, the next reclaim makes one of them give some up.
    pub(super) fn note_refused(&self, zones: &Zones, area: &SlotArea, slot: SlotIndex) {
        let is_full = area.all_room() + SLOT_LEAST > Self::rooms(zones).all;
        let is_poor = area.slot_room(slot) <= 2 * SLOT_LEAST;
        if is_full && is_poor && self.crowded.load(Relaxed) == 0 {
            self.crowded.store(1, Relaxed);
        }
    }

    /// Returns whether a slot was refused room since the last call.
    pub(super) fn was_crowded(&self) -> bool {
        self.crowded.load(Relaxed) != 0 && self.crowded.swap(0, Relaxed) != 0
    }

    /// A number that rises with each call and so chooses which cache gives next.
    pub(super) fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Relaxed)
    }
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self::new()
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
