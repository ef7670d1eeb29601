//! Work of a critical section that costs time besides its shared memory.
//!
//! A simulated machine counts accesses to shared memory, not instructions: without these calls a
//! critical section would take no time. In products, and under the model, they are empty.

use super::backend;

/// A kind of work whose time a simulated machine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A block that leaves or enters the free lists of a zone, under its lock.
    ZoneBlock,
    /// A page that enters or leaves an LRU list, under the lock of that list.
    LruPage,
    /// An allocation or a free that the per-CPU form of a slab policy does not serve.
    SlabSlow,
}

/// Announces that the running task has done `count` pieces of this work.
#[inline(always)]
pub fn spend(effort: Effort, count: usize) {
    backend::spend(effort, count);
}
