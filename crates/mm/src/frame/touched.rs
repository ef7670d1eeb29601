//! Estimates how much of its objects a program touches. Many programs touch only a small part of a
//! large object: if whole objects were brought in, such a program would take many times its memory.
//!
//! `mincore` tells which pages are in memory. But other allocators do not call it, so a filter of
//! system calls may kill a process that does so. The slab layer estimates, for each kind of frame:
//! a program that writes into each object of a page or less touches the whole slab; if objects are
//! larger, the slab layer checks whether anything was written after their first page.

use super::table::Kind;
use quarry_sys::primitive::{AtomicU64, Ordering};

/// A set of kinds of frames.
#[derive(Default)]
pub struct KindSet([AtomicU64; 4]);

impl KindSet {
    /// Puts a kind into the set, or takes it out.
    pub fn set(&self, kind: Kind, is_in: bool) {
        let (word, bit) = self.place(kind);
        if is_in {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Returns whether a kind is in the set.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        let (word, bit) = self.place(kind);
        word.load(Ordering::Relaxed) & bit != 0
    }

    fn place(&self, kind: Kind) -> (&AtomicU64, u64) {
        (&self.0[usize::from(kind.0 / 64)], 1 << (kind.0 % 64))
    }
}
