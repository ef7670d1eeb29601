//! A cache's part of a NUMA node: a list of partial slabs under the list lock, and counts of slabs.
//!
//! Equations: `nr_partial = slabs on the list`; a slab is on the list exactly if it is not frozen
//! and has a free object.

use crate::slab::records::SlabLinks;
use quarry_mm::frame::{FreshZero, List, Pfn};
use quarry_sys::lock::{CountedLock, LockStats};
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub(super) type PartialList = List<Pfn>;

/// One cache's part of one node.
#[repr(C, align(64))]
pub struct Node {
    pub(super) list: CountedLock<PartialList>,
    /// Slabs on the list. Written under the list lock. Threads read it without the lock first, so
    /// that they take the lock only if it is worth while.
    nr_partial: AtomicU32,
    pub(super) slabs_allocated: AtomicU64,
    pub(super) slabs_freed: AtomicU64,
    pub(super) lock_bit_wait_ns: AtomicU64,
    /// True once a cache of this number has existed.
    taken_up: AtomicBool,
}

// SAFETY: a free lock around an empty list and counters of 0 are all zero bytes.
unsafe impl FreshZero for Node {}

impl Node {
    /// Starts for a new cache, which no thread uses yet. Zeroes the counts that an earlier cache of
    /// the same number left; returns whether there was such a cache.
    pub(super) fn take_up(&self) -> bool {
        self.slabs_allocated.store(0, Ordering::Relaxed);
        self.slabs_freed.store(0, Ordering::Relaxed);
        self.lock_bit_wait_ns.store(0, Ordering::Relaxed);
        self.taken_up.swap(true, Ordering::Relaxed)
    }

    /// Lock statistics with the time for which threads waited for lock bits; other counts are 0.
    pub(super) fn lock_bit_waits(&self) -> LockStats {
        let wait_ns = self.lock_bit_wait_ns.load(Ordering::Relaxed);
        LockStats { wait_ns, ..LockStats::default() }
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("slab->list_lock", &self.list);
    }

    pub(super) fn nr_partial(&self) -> u32 {
        self.nr_partial.load(Ordering::Relaxed)
    }

    /// Adds a slab at the end: slabs in front of it had more time to become empty.
    pub(super) fn push_back(&self, list: &mut PartialList, links: SlabLinks<'_>, slab: Pfn) {
        list.push_back(&links, slab);
        self.nr_partial.store(self.nr_partial() + 1, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, list: &mut PartialList, links: SlabLinks<'_>, slab: Pfn) {
        list.remove(&links, slab);
        self.nr_partial.store(self.nr_partial() - 1, Ordering::Relaxed);
    }

    pub(super) fn pop_front(&self, list: &mut PartialList, links: SlabLinks<'_>) -> Option<Pfn> {
        let first = list.first()?;
        self.remove(list, links, first);
        Some(first)
    }
}
