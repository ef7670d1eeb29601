//! One of a cache's lists (`kmem_cache_list`), of a CPU or of a node. Each slab belongs to one
//! list; other CPUs bring the slab's objects back to that list.
//!
//! A CPU's free objects are in its slot's cell. The other parts of `kmem_cache_cpu` are here, under
//! three locks. A thread never holds two of them, because it may leave its CPU at any time.
//!
//! | lock | kernel | guards |
//! |---|---|---|
//! | `partial` | `page_lock` | the partial list, and the words of all slabs of the list |
//! | `remote` | `remote_free.lock` | objects that other CPUs returned |
//! | `outgoing` | interrupts off | `rlist` and `remote_cache_list`: objects for another list |
//!
//! Equations: `nr_partial = slabs on the partial list`; a slab is on that list exactly if it
//! has both a free object and an object in use; `free = free objects of these slabs`;
//! `slabs_allocated - slabs_freed = slabs of the list`; `nr_remote` and `nr_outgoing` are the
//! lengths of their chains; `nr_remote >= freebatch => check`.

use super::slab_word::ListId;
use crate::slab::freelist::Chain;
use quarry_mm::frame::{FreshZero, FrontList, Pfn};
use quarry_sys::broken::Broken;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A list of slabs with free objects. It keeps no tail, because no code needs one.
pub(super) type PartialList = FrontList<Pfn>;

/// Objects that a CPU gathers for one other list (`rlist`, `remote_cache_list`).
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) to: ListId,
    pub(super) objects: Chain,
}

// SAFETY: zero bytes are a chain without objects, and the first list.
unsafe impl FreshZero for Outgoing {}

/// One of a cache's lists. `nr_*` and `free` are written under the lock of what they count. Threads
/// read them without the lock, and take the lock only if that is worth while.
#[repr(C, align(64))]
pub(super) struct CacheList {
    pub(super) partial: CountedLock<PartialList>,
    nr_partial: AtomicU32,
    free: AtomicU64,
    /// Time of the last trim, in nanoseconds; 0 before the first check.
    pub(super) trimmed_ns: AtomicU64,
    pub(super) slabs_allocated: AtomicU64,
    pub(super) slabs_freed: AtomicU64,
    remote: CountedLock<Chain>,
    nr_remote: AtomicU32,
    nr_outgoing: AtomicU32,
    /// Set once other CPUs have brought back `freebatch` objects (`remote_free_check`).
    check: AtomicBool,
    outgoing: CountedLock<Outgoing>,
    pub(super) alloc_slow: AtomicU64,
    pub(super) free_slow: AtomicU64,
    /// Number of objects pushed onto the CPU's list outside the fast path.
    pub(super) pushes: AtomicU64,
    /// Times that the CPU claimed the objects that other CPUs had brought.
    pub(super) claims: AtomicU64,
}

// SAFETY: free locks around empty lists, and counters of 0, are all zero bytes.
unsafe impl FreshZero for CacheList {}

impl CacheList {
    /// Visits the locks. A node's list gathers no objects, so its `outgoing` lock is left out.
    pub(super) fn visit_locks(&self, is_cpu: bool, visit: &mut Visit<'_>) {
        visit("slqb->page_lock", &self.partial);
        visit("slqb->remote_free", &self.remote);
        if is_cpu {
            visit("slqb->rlist", &self.outgoing);
        }
    }

    pub(super) fn nr_partial(&self) -> u32 {
        self.nr_partial.load(Ordering::Relaxed)
    }

    pub(super) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Counts slabs and free objects that came to the partial list (positive) or left it
    /// (negative).
    pub(super) fn count_partial(&self, _held: &PartialList, slabs: i32, free: i64) {
        let nr_partial = self.nr_partial().wrapping_add_signed(slabs);
        self.nr_partial.store(nr_partial, Ordering::Relaxed);
        self.free.store(self.free().wrapping_add_signed(free), Ordering::Relaxed);
    }

    pub(super) fn nr_remote(&self) -> u32 {
        self.nr_remote.load(Ordering::Relaxed)
    }

    pub(super) fn must_check(&self) -> bool {
        self.check.load(Ordering::Relaxed)
    }

    /// Brings objects back, all in one step. Sets the check flag if the chain reaches `freebatch`
    /// objects, or if `check`.
    ///
    /// # Safety
    /// The caller owns the objects. They are of this list's slabs, or come from this slot's cell.
    pub(super) unsafe fn bring(&self, objects: Chain, freebatch: u32, check: bool) {
        let mut remote = self.remote.lock();
        let before = remote.count();
        // SAFETY: the caller's promise; the holder of the lock owns the objects on the chain.
        unsafe { remote.append(objects) };
        self.nr_remote.store(remote.count(), Ordering::Relaxed);
        if check || (before < freebatch && remote.count() >= freebatch) {
            self.check.store(true, Ordering::Relaxed);
        }
    }

    /// Takes all objects that other CPUs have brought back; `None` if they brought no object.
    pub(super) fn claim(&self) -> Option<Chain> {
        if self.nr_remote() == 0 {
            return None;
        }
        let mut remote = self.remote.lock();
        self.check.store(false, Ordering::Relaxed);
        self.nr_remote.store(0, Ordering::Relaxed);
        let objects = remote.take();
        drop(remote);
        if objects.count() == 0 {
            return None;
        }
        self.claims.fetch_add(1, Ordering::Relaxed);
        Some(objects)
    }

    pub(super) fn nr_outgoing(&self) -> u32 {
        self.nr_outgoing.load(Ordering::Relaxed)
    }

    pub(super) fn with_outgoing<R>(&self, work: impl FnOnce(&mut Outgoing) -> R) -> R {
        let mut outgoing = self.outgoing.lock();
        let result = work(&mut outgoing);
        self.nr_outgoing.store(outgoing.objects.count(), Ordering::Relaxed);
        result
    }

    /// Takes the objects that the CPU has gathered, with the list that they are for.
    pub(super) fn take_outgoing(&self) -> Option<(ListId, Chain)> {
        let take = |outgoing: &mut Outgoing| (outgoing.to, outgoing.objects.take());
        (self.nr_outgoing() > 0).then(|| self.with_outgoing(take))
    }

    /// Passes the remote chain and the outgoing chain to `check`. No other thread uses the list.
    pub(super) fn check_chains(
        &self,
        mut check: impl FnMut(&Chain, Option<ListId>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        check(&self.remote.lock(), None)?;
        let outgoing = self.outgoing.lock();
        check(&outgoing.objects, Some(outgoing.to))
    }

    pub(super) fn restart(&self) {
        for counter in [
            &self.slabs_allocated,
            &self.slabs_freed,
            &self.alloc_slow,
            &self.free_slow,
            &self.pushes,
            &self.claims,
            &self.trimmed_ns,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
