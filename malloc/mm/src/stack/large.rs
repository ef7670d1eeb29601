//! Counts requests above the largest object, which no cache counts.
//!
//! An allocation is counted as `allocated` when it is handed out, and as `freed` when it is taken
//! back. A `realloc` in place or by page tables counts only as `resized`.
//!
//! Equation: `mappings in use = allocated - freed` of mappings, while no thread is at work.

use quarry_sys::local;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Counts of one kind of large allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargeStats {
    /// Handed out.
    pub allocated: u64,
    /// Taken back.
    pub freed: u64,
    /// Made larger or smaller without a copy.
    pub resized: u64,
}

/// The counters of one kind of large allocation.
pub struct Counter {
    allocated: AtomicU64,
    freed: AtomicU64,
    resized: AtomicU64,
}

impl Counter {
    const fn new() -> Self {
        Self { allocated: AtomicU64::new(0), freed: AtomicU64::new(0), resized: AtomicU64::new(0) }
    }

    /// Counts an allocation.
    pub fn note_allocated(&self) {
        local::add_shared(&self.allocated, 1);
    }

    pub(super) fn note_freed(&self) {
        local::add_shared(&self.freed, 1);
    }

    pub(super) fn note_resized(&self) {
        local::add_shared(&self.resized, 1);
    }

    pub(super) fn stats(&self) -> LargeStats {
        LargeStats {
            allocated: self.allocated.load(Relaxed),
            freed: self.freed.load(Relaxed),
            resized: self.resized.load(Relaxed),
        }
    }
}

/// The counters of a stack.
pub struct LargeCounts {
    /// Requests up to 1 MiB that no class serves.
    pub blocks: Counter,
    /// Requests above 1 MiB.
    pub mappings: Counter,
}

impl LargeCounts {
    pub(super) const fn new() -> Self {
        Self { blocks: Counter::new(), mappings: Counter::new() }
    }
}
