//! Announces the time that critical sections take besides their accesses to shared memory.
//!
//! A simulated machine counts accesses to shared memory, not instructions: without these calls a
//! critical section would take no time. In products, and under the model, the calls are empty.

use super::backend;

/// A kind of work that takes a known time on a simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A block that enters or leaves a zone's free lists, under the zone's lock.
    ZoneBlock,
    /// A page that enters or leaves an LRU list, under the list's lock.
    LruPage,
    /// An allocation or a free that takes the slow path of its slab policy.
    SlabSlow,
}

/// Announces that the running task has done this work `count` times.
#[inline(always)]
pub fn spend(effort: Effort, count: usize) {
    backend::spend(effort, count);
}
