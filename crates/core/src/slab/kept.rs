//! How much all caches of a stack keep together beyond what is in use, and how much they may.
//!
//! What barns keep has been given to this process and goes back to the operating system only when
//! nobody has needed it for a while, as free memory of the zones does: keeping it in barns instead
//! costs nothing until somebody else needs memory. So barns may keep much, and are *shrunk* before
//! others are served from memory that nobody has touched yet, down to what they may keep even then
//! (in the kernel, `kswapd` calls shrinkers before a zone is empty).
//!
//! Equations, while nobody is at work: `barns` = sum over caches of bytes announced by their barn;
//! `empty` = sum over caches of empty slabs * bytes of a slab.

use crate::frame::FRAME_BYTES;
use crate::pcp::PageAllocator;
use quarry_sys::primitive::{AtomicUsize, Ordering::Relaxed};

/// What barns may keep together while nobody else needs memory: what is worth a thread that gives
/// memory back.
const BARNS_LEAST: usize = 32 << 20;
/// Of what is in use, barns may keep this part then.
const BARNS_SHARE: usize = 8;
/// What barns may always keep together. With 8 MiB a program of 50 was larger by a twentieth.
const PRESSED_LEAST: usize = 2 << 20;
/// Of what is in use, barns may always keep this part.
const PRESSED_SHARE: usize = 32;
/// What empty slabs may always amount to.
const EMPTY_LEAST: usize = 2 << 20;
/// Of what is in use, empty slabs may be this part.
const EMPTY_SHARE: usize = 128;

/// Bytes kept by all caches of a stack.
pub struct Kept {
    barns: AtomicUsize,
    empty: AtomicUsize,
    turn: AtomicUsize,
}

impl Kept {
    /// Nothing kept.
    #[must_use]
    pub const fn new() -> Self {
        Self { barns: AtomicUsize::new(0), empty: AtomicUsize::new(0), turn: AtomicUsize::new(0) }
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

    /// Whose turn it is to give, as a number that goes up.
    pub(super) fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Relaxed)
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self::new()
    }
}

fn share(pages: &PageAllocator, part: usize) -> usize {
    pages.zones().budget().used() as usize * FRAME_BYTES / part
}
