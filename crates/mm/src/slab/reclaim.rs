//! A request to a policy to give memory back.

use super::cache::{Cache, CacheId};
use quarry_sys::percpu::SlotIndex;

/// The unused memory that a policy should give back.
#[derive(Clone, Copy)]
pub enum Reclaim<'a> {
    /// Everything that all caches hold: out of slots and barns into slabs, and empty slabs to the
    /// page allocator.
    All,
    /// The same for one cache.
    Cache(&'a Cache),
    /// The objects of idle slots and idle caches, and of other caches the objects in barns that
    /// their CPUs have not needed since the last call.
    Idle(Idle<'a>),
}

/// The slots and caches that have not allocated or freed anything for a while. Both functions
/// always give the same answer for the same argument.
#[derive(Clone, Copy)]
pub struct Idle<'a> {
    /// Slots, idle for all caches.
    pub slots: &'a dyn Fn(SlotIndex) -> bool,
    /// Caches, idle on all CPUs.
    pub caches: &'a dyn Fn(CacheId) -> bool,
}

/// A walk through the partial slabs of a cache, the emptiest list first.
#[derive(Clone, Copy)]
pub struct SparseWalk {
    /// The list that the walk is at. All lists above it are done.
    pub(super) list: usize,
    /// Slabs that were on it when the walk came to it, and are still to be looked at.
    pub(super) left: u32,
}

impl SparseWalk {
    /// No slab has been looked at.
    pub const START: Self = Self { list: usize::MAX, left: 0 };
    /// All slabs have been looked at.
    pub(super) const OVER: Self = Self { list: 0, left: 0 };

    /// Returns whether all slabs have been looked at.
    #[must_use]
    pub fn is_over(self) -> bool {
        self.list == 0 && self.left == 0
    }
}
