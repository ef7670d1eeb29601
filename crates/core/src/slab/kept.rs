//! How much all caches of a stack keep together beyond what is in use, and how much they may.
//!
//! A cache's own bounds suit a program that lives in a few sizes; one that goes through all of them
//! in turn would fill seventy barns. So there is a bound on the sum as well, a share of what is in
//! use, and where it is passed the caches give in turn.
//!
//! Equations, while nobody is at work: `barns` = sum over caches of objects in barns * stride;
//! `empty` = sum over caches of empty slabs * bytes of a slab.

use crate::frame::FRAME_BYTES;
use crate::pcp::PageAllocator;
use quarry_sys::primitive::{AtomicUsize, Ordering::Relaxed};

/// What barns may always keep together: two caches' fill.
const BARNS_LEAST: usize = 8 << 20;
/// Of what is in use, barns may keep this part.
const BARNS_SHARE: usize = 32;
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

    /// Bytes of objects in barns. Counted beside the barns' locks, so a moment late.
    #[must_use]
    pub fn barns(&self) -> usize {
        // What has been counted out may not have been counted in yet.
        (self.barns.load(Relaxed) as isize).max(0) as usize
    }

    /// Bytes of slabs without an object in use, likewise.
    #[must_use]
    pub fn empty(&self) -> usize {
        (self.empty.load(Relaxed) as isize).max(0) as usize
    }

    /// Most bytes that barns may keep now.
    pub(super) fn barns_most(pages: &PageAllocator) -> usize {
        share(pages, BARNS_SHARE).max(BARNS_LEAST)
    }

    /// Whether empty slabs are too many by now.
    pub(super) fn is_empty_enough(&self, pages: &PageAllocator) -> bool {
        self.empty() >= share(pages, EMPTY_SHARE).max(EMPTY_LEAST)
    }

    pub(super) fn count_into_barn(&self, bytes: usize) {
        self.barns.fetch_add(bytes, Relaxed);
    }

    pub(super) fn count_out_of_barn(&self, bytes: usize) {
        self.barns.fetch_sub(bytes, Relaxed);
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
