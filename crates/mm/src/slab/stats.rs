//! The counts of a cache, with the same names under all policies.

use crate::frame::MAX_NODES;
use quarry_sys::lock::LockStats;

/// The counts of a cache; `slabinfo` prints them.
///
/// While no thread is at work, and with bulk requests counted by their objects:
/// * allocations - frees = `active_objects - parked_objects` = objects that callers have
/// * `slabs_allocated - slabs_freed = total_slabs`
/// * `partial_slabs <= active_slabs <= total_slabs`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlabStats {
    /// Objects in use by callers or parked on per-CPU lists.
    pub active_objects: u64,
    /// Objects of all slabs.
    pub total_objects: u64,
    /// Slabs with at least one object in use or parked.
    pub active_slabs: u64,
    /// Slabs held.
    pub total_slabs: u64,
    /// Slabs on partial lists.
    pub partial_slabs: u64,
    /// Objects on per-CPU lists and in barns.
    pub parked_objects: u64,
    /// Allocations served by the per-CPU form.
    pub alloc_fast: u64,
    /// Allocations that went further.
    pub alloc_slow: u64,
    /// Frees served by the per-CPU form.
    pub free_fast: u64,
    /// Frees that went further.
    pub free_slow: u64,
    /// Slabs taken from the page allocator.
    pub slabs_allocated: u64,
    /// Slabs given back.
    pub slabs_freed: u64,
    /// Times a CPU took over what other threads had freed into its slab (`ALLOC_REFILL`).
    pub refills: u64,
    /// Times a CPU let go of a slab that was used up (`DEACTIVATE_BYPASS`).
    pub deactivations: u64,
    /// Compare-and-swaps of a slab's word that failed because another thread was faster
    /// (`CMPXCHG_DOUBLE_FAIL`).
    pub cmpxchg_fails: u64,
    /// Times a CPU changed its mode, where the policy has modes.
    pub mode_changes: u64,
    /// Counters of the lock that guards the slabs.
    pub list_lock: LockStats,
    /// Counters of the lock bits of slabs, where the policy has such bits; hold times are not
    /// measured.
    pub slab_lock: LockStats,
    /// Counters of the locks of all barns, where the policy has barns.
    pub barn_lock: LockStats,
    /// The barn of each node, where the policy has barns.
    pub barns: [BarnStats; MAX_NODES],
}

impl SlabStats {
    /// Objects handed out so far.
    #[must_use]
    pub fn allocs(&self) -> u64 {
        self.alloc_fast + self.alloc_slow
    }

    /// Objects given back so far.
    #[must_use]
    pub fn frees(&self) -> u64 {
        self.free_fast + self.free_slow
    }

    /// Returns whether a shrink would find anything: parked objects, or slabs without an object in
    /// use.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.parked_objects > 0 || self.total_slabs > self.active_slabs
    }
}

/// The occupancy of an object's slab, compared with all slabs of its cache, for programs that can
/// move their objects. Objects that CPUs and barns hold count as in use: telling them apart would
/// be expensive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Objects of its slab that are in use, itself among them.
    pub live: u32,
    /// Objects of its slab.
    pub total: u32,
    /// Slabs of its cache.
    pub slabs: u64,
    /// Slabs among these that have objects in use and free ones.
    pub partial_slabs: u64,
    /// Objects in use of the partial slabs.
    pub partial_live: u64,
    /// True if [`SlabPolicy::alloc_dense`](super::SlabPolicy::alloc_dense) would move it to another
    /// slab in use, and its own slab is no fuller than the average of the other partial ones; or
    /// fuller by an eighth at most, and no fuller than that slab. A program that moves such objects
    /// comes to an end, with few slabs.
    pub is_sparse: bool,
    /// True if no other object in use lies on one of its pages, which can go back without it.
    pub frees_page: bool,
}

/// The barn of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarnStats {
    /// Objects in the barn.
    pub objects: u64,
    /// Counters of its lock.
    pub lock: LockStats,
}
