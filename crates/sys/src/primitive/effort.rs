//! The time of sections beside the memory that they share.
//!
//! A simulated machine sees shared memory, and no instructions: without a word from the code a
//! critical section would take no time there. In products, and under the model, the calls are
//! empty.

use super::backend;

/// A kind of work, whose time a simulated machine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A block that leaves or enters the free lists of a zone, under its lock.
    ZoneBlock,
    /// A page that enters or leaves an LRU list, under the lock of that list.
    LruPage,
    /// An allocation or a free that the per-CPU form of a slab policy does not serve.
    SlabSlow,
}

/// Says that the running task has done some work of this kind.
#[inline(always)]
pub fn spend(effort: Effort, count: usize) {
    backend::spend(effort, count);
}
