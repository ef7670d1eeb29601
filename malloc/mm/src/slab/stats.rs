//! The counts of a cache, with the same names under all policies.

use crate::frame::MAX_NODES;
use quarry_sys::counters::add_fields;
use quarry_sys::lock::LockStats;
use quarry_sys::percpu::ArrayUse;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

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
    /// Bytes of each object.
    pub bytes: usize,
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
    /// True if the program should move the object, because two conditions hold.
    /// [`SlabPolicy::alloc_dense`](super::SlabPolicy::alloc_dense) would take new memory from
    /// another slab in use, D. The object's slab is at most as full as the partial slabs except D
    /// on average; or at most an eighth fuller than that, and no fuller than D. After a while, a
    /// program that moves only these objects finds no more, and has few slabs.
    pub is_sparse: bool,
    /// True if only this object keeps one of its pages, or its slab, from going back.
    pub frees_page: bool,
    /// The object's part of the free bytes that it pins with others: those on its pages, or in its
    /// slab if that goes back only whole, divided by the objects in use there.
    pub pinned: u64,
}

/// The barn of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarnStats {
    /// Objects in the barn.
    pub objects: u64,
    /// Counters of the barn's lock.
    pub lock: LockStats,
}

add_fields!(BarnStats: objects, lock);

/// Exchanges with arrays, which the arrays do not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exchanges {
    /// Requests that found their array empty.
    pub alloc_slow: u64,
    /// Frees that found their array full.
    pub free_slow: u64,
    /// Objects that entered arrays in batches.
    pub batched_in: u64,
    /// Objects that left arrays in batches.
    pub batched_out: u64,
}

add_fields!(Exchanges: alloc_slow, free_slow, batched_in, batched_out);

impl Exchanges {
    /// Stores all allocations and frees of a cache, to which those of bulk requests were added
    /// before; `arrays`: the counts of its arrays.
    pub fn fill(self, arrays: ArrayUse, stats: &mut SlabStats) {
        // level = pushes - pops + batched_in - batched_out; operations = pushes + pops.
        let pushes_more = (arrays.level + self.batched_out).wrapping_sub(self.batched_in) as i64;
        let pops = (arrays.operations as i64 - pushes_more).max(0) as u64 / 2;
        stats.alloc_fast += pops;
        stats.free_fast += arrays.operations.saturating_sub(pops);
        (stats.alloc_slow, stats.free_slow) = (self.alloc_slow, self.free_slow);
    }
}

/// The counts of [`ArrayCounts`].
#[derive(Clone, Copy)]
pub enum Count {
    /// Allocations that no array served, and no barn counted.
    AllocSlow,
    /// Frees that no array served, and no barn counted.
    FreeSlow,
    /// Objects that entered arrays in batches.
    BatchedIn,
    /// Objects that left arrays in batches.
    BatchedOut,
    /// Objects of bulk requests among those that left.
    BulkAlloc,
    /// Objects of bulk frees among those that entered.
    BulkFree,
    /// Single operations that the arrays counted for earlier caches with the same number.
    Before,
}

/// The exchanges of a cache, counted by all tasks.
pub struct ArrayCounts([AtomicU64; 7]);

impl ArrayCounts {
    /// All counts are 0.
    pub const fn zero() -> Self {
        Self([const { AtomicU64::new(0) }; 7])
    }

    /// Counts `by` more.
    pub fn add(&self, count: Count, by: usize) {
        self.0[count as usize].fetch_add(by as u64, Relaxed);
    }

    /// Resets the counts for a cache whose arrays have counted `operations` already.
    pub fn restart(&self, operations: u64) {
        self.0.iter().for_each(|count| count.store(0, Relaxed));
        self.0[Count::Before as usize].store(operations, Relaxed);
    }

    fn of(&self, count: Count) -> u64 {
        self.0[count as usize].load(Relaxed)
    }

    /// Adds the exchanges counted here to `all`, and those of bulk requests to `stats`.
    pub(super) fn add_to(&self, all: &mut Exchanges, stats: &mut SlabStats) {
        *all += Exchanges {
            alloc_slow: self.of(Count::AllocSlow),
            free_slow: self.of(Count::FreeSlow),
            batched_in: self.of(Count::BatchedIn),
            batched_out: self.of(Count::BatchedOut),
        };
        stats.alloc_fast += self.of(Count::BulkAlloc);
        stats.free_fast += self.of(Count::BulkFree);
    }

    /// Stores all allocations and frees; `elsewhere`: the exchanges that are not counted here.
    pub fn fill(&self, arrays: ArrayUse, elsewhere: Exchanges, stats: &mut SlabStats) {
        let mut all = elsewhere;
        self.add_to(&mut all, stats);
        let operations = arrays.operations.saturating_sub(self.of(Count::Before));
        all.fill(ArrayUse { operations, ..arrays }, stats);
    }
}
