//! The counts of a cache, with the same names under all policies.

use crate::frame::MAX_NODES;
use quarry_sys::lock::LockStats;

/// The counts of a cache, which `slabinfo` prints.
///
/// Equations, while no thread is at work, with each object of a bulk request counted:
/// * allocations - frees = `active_objects - parked_objects` = objects that callers have
/// * `slabs_allocated - slabs_freed = total_slabs`
/// * `partial_slabs <= active_slabs <= total_slabs`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlabStats {
    /// Objects that callers have, and parked ones.
    pub active_objects: u64,
    /// All objects of all slabs.
    pub total_objects: u64,
    /// Slabs with at least one object in use or parked.
    pub active_slabs: u64,
    /// All slabs of the cache.
    pub total_slabs: u64,
    /// Slabs on partial lists.
    pub partial_slabs: u64,
    /// Parked objects.
    pub parked_objects: u64,
    /// Allocations that the fast path served.
    pub alloc_fast: u64,
    /// Allocations that the slow path served.
    pub alloc_slow: u64,
    /// Frees that the fast path served.
    pub free_fast: u64,
    /// Frees that the slow path served.
    pub free_slow: u64,
    /// Slabs taken from the page allocator.
    pub slabs_allocated: u64,
    /// Slabs given back.
    pub slabs_freed: u64,
    /// Times that a CPU took over objects that other CPUs freed into its slab (`ALLOC_REFILL`).
    pub refills: u64,
    /// Times that a CPU gave up a slab without free objects (`DEACTIVATE_BYPASS`).
    pub deactivations: u64,
    /// Failed compare-and-swaps of a slab's word (`CMPXCHG_DOUBLE_FAIL`).
    pub cmpxchg_fails: u64,
    /// Times that a CPU changed its mode, under `slam`.
    pub mode_changes: u64,
    /// Counters of the lock that guards the slabs.
    pub list_lock: LockStats,
    /// Counters of the lock bits of slabs, if the policy has them, without hold times.
    pub slab_lock: LockStats,
    /// Counters of the locks of all barns, if the policy has barns.
    pub barn_lock: LockStats,
    /// The barn of each node, if the policy has barns.
    pub barns: [BarnStats; MAX_NODES],
}

impl SlabStats {
    /// Allocations so far.
    #[must_use]
    pub fn allocs(&self) -> u64 {
        self.alloc_fast + self.alloc_slow
    }

    /// Frees so far.
    #[must_use]
    pub fn frees(&self) -> u64 {
        self.free_fast + self.free_slow
    }

    /// Returns whether a shrink would find parked objects, or slabs without an object in use.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.parked_objects > 0 || self.total_slabs > self.active_slabs
    }
}

/// The occupancy of an object's slab, and that of all slabs of its cache, for programs that can
/// move objects. Parked objects count as in use, because telling the two apart would be expensive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Objects of the slab that are in use, the object itself included.
    pub live: u32,
    /// All objects of the slab.
    pub total: u32,
    /// Slabs of the cache.
    pub slabs: u64,
    /// Slabs of the cache that have objects in use and free objects.
    pub partial_slabs: u64,
    /// Objects in use in the partial slabs.
    pub partial_live: u64,
    /// True if the program should move the object:
    /// [`SlabPolicy::alloc_dense`](super::SlabPolicy::alloc_dense) would take its new memory from
    /// another slab in use, and its slab is at most as full as the other partial slabs on average
    /// (or at most an eighth fuller, and no fuller than that other slab). After a while, a program
    /// that moves only these objects finds no more, and has few slabs.
    pub is_sparse: bool,
    /// True if only this object keeps one of its pages, or its slab, from going back.
    pub frees_page: bool,
}

/// The barn of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarnStats {
    /// Objects in the barn.
    pub objects: u64,
    /// Counters of the barn's lock.
    pub lock: LockStats,
}
