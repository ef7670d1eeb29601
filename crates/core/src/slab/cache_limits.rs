//! How much all caches of a stack keep together beyond what is in use, and how much they may.
//!
//! What barns keep has been given to this process and goes back to the operating system only when
//! nobody has needed it for a while, as free memory of the zones does: keeping it in barns instead
//! costs nothing until somebody else needs memory. So barns may keep much, and are *shrunk* before
//! others are served from memory that nobody has touched yet, down to what they may keep even then
//! (in the kernel, `kswapd` calls shrinkers before a zone is empty).
//!
//! What the arrays of CPUs have room for is bounded beside, for each slot and for all, because a
//! machine with many CPUs has many of them: see [`CacheLimits::rooms`].
//!
//! Equations, while nobody is at work: `barns` = sum over caches of bytes announced by their barn;
//! `empty` = sum over caches of empty slabs * bytes of a slab.

use crate::frame::FRAME_BYTES;
use crate::pcp::PageAllocator;
use quarry_sys::percpu::{Limits, SlotArea, SlotIndex};
use quarry_sys::primitive::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// What barns may keep together while nobody else needs memory: what is worth a thread that gives
/// memory back.
const BARNS_LEAST: usize = 32 << 20;
/// Of what is in use, barns may keep this part then.
const BARNS_SHARE: usize = 8;
/// What barns may always keep together. With 8 MiB a program of 50 was larger by a twentieth.
const PRESSED_LEAST: usize = 2 << 20;
/// Of what is in use, barns may always keep this part.
const PRESSED_SHARE: usize = 32;
/// What the arrays of one slot may have room for: 12 MiB are the narrow ones of all classes of
/// `malloc`, and a program that uses all at random was a fifth slower with 8 MiB. What bounds a
/// machine of many CPUs is what all slots may have together. (tcmalloc begins with 1.5 MiB for a
/// CPU and lets it take what another one leaves.)
const SLOT_MOST: usize = 16 << 20;
/// What those of a slot may always have room for, however much others have.
const SLOT_LEAST: usize = 256 << 10;
/// What empty slabs may always amount to.
const EMPTY_LEAST: usize = 2 << 20;
/// Of what is in use, empty slabs may be this part.
const EMPTY_SHARE: usize = 128;

/// Bytes kept by all caches of a stack.
pub struct CacheLimits {
    barns: AtomicUsize,
    empty: AtomicUsize,
    turn: AtomicUsize,
    /// Whether an array of a slot with little room got no more since somebody has looked.
    crowded: AtomicU32,
}

impl CacheLimits {
    /// Nothing kept.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            barns: AtomicUsize::new(0),
            empty: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            crowded: AtomicU32::new(0),
        }
    }

    /// Bytes of objects in barns, as far as they have told.
    #[must_use]
    pub fn barns(&self) -> usize {
        self.barns.load(Relaxed)
    }

    /// Bytes of slabs without an object in use. Counted beside the locks, so a moment late.
    #[must_use]
    pub fn empty(&self) -> usize {
        // What has been counted out may not have been counted in yet.
        (self.empty.load(Relaxed) as isize).max(0) as usize
    }

    /// Most bytes that barns may keep now. Near the limit, little more than under pressure: what
    /// they keep counts as used.
    pub(super) fn barns_most(pages: &PageAllocator) -> usize {
        let budget = pages.zones().budget();
        let left = budget.limit().saturating_sub(budget.used()) as usize * FRAME_BYTES;
        let most = share(pages, BARNS_SHARE).max(BARNS_LEAST);
        most.min(Self::barns_pressed(pages) + left / 2)
    }

    /// What the arrays of slots may have room for: all together as much as barns may keep, for it
    /// is the same memory, on other shelves.
    pub(super) fn rooms(pages: &PageAllocator) -> Limits {
        Limits { slot: SLOT_MOST, all: Self::barns_most(pages), least: SLOT_LEAST }
    }

    /// Most bytes that barns may keep where others need memory.
    pub(super) fn barns_pressed(pages: &PageAllocator) -> usize {
        share(pages, PRESSED_SHARE).max(PRESSED_LEAST)
    }

    /// Whether empty slabs are too many by now.
    pub(super) fn is_empty_enough(&self, pages: &PageAllocator) -> bool {
        self.empty() >= share(pages, EMPTY_SHARE).max(EMPTY_LEAST)
    }

    /// What a barn announces has changed.
    pub(super) fn barn_changed(&self, before: usize, after: usize) {
        self.barns.fetch_add(after.wrapping_sub(before), Relaxed);
    }

    /// The number of empty slabs of `bytes` each has changed.
    pub(super) fn empty_changed(&self, before: u32, after: u32, bytes: usize) {
        if before != after {
            let more = (after as usize).wrapping_sub(before as usize).wrapping_mul(bytes);
            self.empty.fetch_add(more, Relaxed);
        }
    }

    /// An array of `slot` that would have needed more room got none. Where others have what it
    /// lacks, they are to give some.
    pub(super) fn note_refused(&self, pages: &PageAllocator, area: &SlotArea, slot: SlotIndex) {
        let is_full = area.all_room() + SLOT_LEAST > Self::rooms(pages).all;
        let is_poor = area.slot_room(slot) <= 2 * SLOT_LEAST;
        if is_full && is_poor && self.crowded.load(Relaxed) == 0 {
            self.crowded.store(1, Relaxed);
        }
    }

    /// Whether that has happened since the last call.
    pub(super) fn was_crowded(&self) -> bool {
        self.crowded.load(Relaxed) != 0 && self.crowded.swap(0, Relaxed) != 0
    }

    /// Whose turn it is to give, as a number that goes up.
    pub(super) fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Relaxed)
    }
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self::new()
    }
}

fn share(pages: &PageAllocator, part: usize) -> usize {
    pages.zones().budget().used() as usize * FRAME_BYTES / part
}
