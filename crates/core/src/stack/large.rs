//! What was asked for above the largest object, counted exactly: caches count their own objects,
//! and blocks and mappings would not be seen at all.
//!
//! Counted are allocations that were handed out and taken back, however they were asked for, and
//! whether their memory was fresh or had been kept. What a `realloc` makes larger or smaller
//! where it is, or moves by page tables, stays the same allocation and is counted as resized.
//!
//! Equation: `mappings in use = allocated - freed` of mappings, while nobody is at work.

use super::{Stack, StackConfig};
use core::fmt::{self, Write};
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

/// The counters of one kind.
pub(super) struct Counter {
    allocated: AtomicU64,
    freed: AtomicU64,
    resized: AtomicU64,
}

impl Counter {
    const fn new() -> Self {
        Self { allocated: AtomicU64::new(0), freed: AtomicU64::new(0), resized: AtomicU64::new(0) }
    }

    pub(super) fn note_allocated(&self) {
        local::add_shared(&self.allocated, 1);
    }

    pub(super) fn note_freed(&self) {
        local::add_shared(&self.freed, 1);
    }

    pub(super) fn note_resized(&self) {
        local::add_shared(&self.resized, 1);
    }

    fn stats(&self) -> LargeStats {
        LargeStats {
            allocated: self.allocated.load(Relaxed),
            freed: self.freed.load(Relaxed),
            resized: self.resized.load(Relaxed),
        }
    }
}

/// The counters of a stack.
pub(super) struct LargeCounts {
    /// Requests up to 1 MiB that no class serves.
    pub(super) blocks: Counter,
    /// Requests above.
    pub(super) mappings: Counter,
}

impl LargeCounts {
    pub(super) const fn new() -> Self {
        Self { blocks: Counter::new(), mappings: Counter::new() }
    }
}

impl<C: StackConfig> Stack<C> {
    /// Blocks of pages that were asked for: above the largest object, up to 1 MiB.
    #[must_use]
    pub fn block_stats(&self) -> LargeStats {
        self.large.blocks.stats()
    }

    /// Mappings that were asked for: above 1 MiB.
    #[must_use]
    pub fn mapping_stats(&self) -> LargeStats {
        self.large.mappings.stats()
    }
}

/// A line for blocks and one for mappings, in the words that `slabinfo` has for objects.
///
/// # Errors
/// What the writer says.
pub fn print_large<C: StackConfig>(stack: &Stack<C>, out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "# large requests : operations <alloc> <free> <resize>")?;
    for (name, stats) in [("blocks", stack.block_stats()), ("mappings", stack.mapping_stats())] {
        let LargeStats { allocated, freed, resized } = stats;
        writeln!(out, "{name:<17}: operations {allocated:>10} {freed:>10} {resized:>10}")?;
    }
    Ok(())
}
