//! A request to a policy to give memory back.

use super::cache::{Cache, CacheId};
use quarry_sys::percpu::SlotIndex;

/// The unused memory that a policy should give back.
#[derive(Clone, Copy)]
pub enum Reclaim<'a> {
    /// All unused memory: parked objects go to slabs, and empty slabs to the page allocator.
    All,
    /// The same for one cache.
    Cache(&'a Cache),
    /// The objects of idle slots and of idle caches. Of other caches, only the objects in barns
    /// that no CPU has needed since the last call.
    Idle(Idle<'a>),
}

/// The slots and caches without an allocation or free for a while. Both functions are pure.
#[derive(Clone, Copy)]
pub struct Idle<'a> {
    /// Tells whether a slot is idle, for all caches.
    pub slots: &'a dyn Fn(SlotIndex) -> bool,
    /// Tells whether a cache is idle, on all CPUs.
    pub caches: &'a dyn Fn(CacheId) -> bool,
}

/// A walk through the partial slabs of a cache: one shard after the other, the last first, and in
/// each the emptiest list first.
#[derive(Clone, Copy)]
pub struct SparseWalk {
    /// The number of the shard that the walk is at. All shards with higher numbers are done.
    shard: usize,
    /// The number of the list that the walk is at. All lists with higher numbers are done.
    pub(super) list: usize,
    /// Slabs of this list still to be examined, as counted when the walk came to the list.
    pub(super) left: u32,
}

impl SparseWalk {
    /// A walk before its first slab.
    pub const START: Self = Self { shard: usize::MAX, ..Self::SHARD };
    const SHARD: Self = Self { shard: 0, list: usize::MAX, left: 0 };
    /// A walk after its last slab.
    pub(super) const OVER: Self = Self { shard: 0, list: 0, left: 0 };

    /// Returns whether the walk has examined all slabs.
    #[must_use]
    pub fn is_over(self) -> bool {
        self.shard == 0 && self.is_over_shard()
    }

    fn is_over_shard(self) -> bool {
        self.list == 0 && self.left == 0
    }

    /// The shard that the walk is at, of a cache that has `shards`.
    pub(super) fn shard_of(&mut self, shards: usize) -> usize {
        self.shard = self.shard.min(shards - 1);
        self.shard
    }

    /// Goes on to the next shard if all slabs of this one are examined.
    pub(super) fn go_on(&mut self) {
        if self.is_over_shard() && self.shard > 0 {
            *self = Self { shard: self.shard - 1, ..Self::SHARD };
        }
    }
}
