//! One of a cache's lists (`kmem_cache_list`): a CPU's, or a node's. Slabs belong to it; other CPUs
//! bring their objects back to it.
//!
//! A CPU's list of objects is in its slot's cell. Everything else of `kmem_cache_cpu` is here,
//! under three locks that are never held together, because a thread may leave its CPU at any time:
//!
//! | lock | kernel | guards |
//! |---|---|---|
//! | `partial` | `page_lock` | the partial list, and the words of all slabs of the list |
//! | `remote` | `remote_free.lock` | objects that others have brought back |
//! | `outgoing` | interrupts off | `rlist` and `remote_cache_list`: what the CPU brings to others |
//!
//! Equations: `nr_partial = slabs on the partial list`; these are the list's slabs that have a free
//! object; each of them has one in use as well; `free = free objects of them`; `slabs_allocated -
//! slabs_freed = slabs of the list`; `nr_remote` and `nr_outgoing` are the lengths of their chains;
//! `nr_remote >= freebatch => check`.

use super::chain::Chain;
use super::slab_word::ListId;
use super::slabs::PartialList;
use quarry_mm::frame::FreshZero;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Objects of one list that a CPU gathers for it (`rlist`, `remote_cache_list`).
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) to: ListId,
    pub(super) objects: Chain,
}

// SAFETY: zero bytes are a chain without objects, and the first list.
unsafe impl FreshZero for Outgoing {}
// SAFETY: zero bytes are an empty chain: no head, no tail, no objects.
unsafe impl FreshZero for Chain {}

/// One of a cache's lists. Counters are written under the lock of what they count, and read without
/// it by threads that would otherwise take it in vain.
#[repr(C, align(64))]
pub(super) struct CacheList {
    partial: CountedLock<PartialList>,
    nr_partial: AtomicU32,
    free: AtomicU64,
    /// Time of the last trim of the list, in nanoseconds; 0 before the first look.
    pub(super) trimmed_ns: AtomicU64,
    pub(super) slabs_allocated: AtomicU64,
    pub(super) slabs_freed: AtomicU64,
    remote: CountedLock<Chain>,
    nr_remote: AtomicU32,
    nr_outgoing: AtomicU32,
    /// Set when others have brought back enough for the CPU to look (`remote_free_check`).
    check: AtomicBool,
    outgoing: CountedLock<Outgoing>,
    pub(super) alloc_slow: AtomicU64,
    pub(super) free_slow: AtomicU64,
    /// Objects put on the CPU's list outside the fast path.
    pub(super) pushes: AtomicU64,
    /// Times that the list took back what others had brought.
    pub(super) claims: AtomicU64,
}

// SAFETY: free locks around empty lists, and counters of 0, are all zero bytes.
unsafe impl FreshZero for CacheList {}

impl CacheList {
    /// Visits the locks. A node's list has nothing `outgoing`.
    pub(super) fn visit_locks(&self, is_cpu: bool, visit: &mut Visit<'_>) {
        visit("slqb->page_lock", &self.partial);
        visit("slqb->remote_free", &self.remote);
        if is_cpu {
            visit("slqb->rlist", &self.outgoing);
        }
    }

    /// The lock of the list's slabs.
    pub(super) fn partial(&self) -> &CountedLock<PartialList> {
        &self.partial
    }

    /// Slabs on the partial list.
    pub(super) fn nr_partial(&self) -> u32 {
        self.nr_partial.load(Ordering::Relaxed)
    }

    /// Free objects of the list's slabs.
    pub(super) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Counts slabs and free objects that came to the partial list, or left it.
    pub(super) fn count_partial(&self, _held: &PartialList, slabs: i32, free: i64) {
        let nr_partial = self.nr_partial().wrapping_add_signed(slabs);
        self.nr_partial.store(nr_partial, Ordering::Relaxed);
        self.free.store(self.free().wrapping_add_signed(free), Ordering::Relaxed);
    }

    /// Objects that others have brought back.
    pub(super) fn nr_remote(&self) -> u32 {
        self.nr_remote.load(Ordering::Relaxed)
    }

    /// Returns whether others have brought back enough for the CPU to look.
    pub(super) fn must_check(&self) -> bool {
        self.check.load(Ordering::Relaxed)
    }

    /// Brings objects back, all in one step. Sets the check flag where that makes the chain
    /// `freebatch` long, and always if `check`.
    ///
    /// # Safety
    /// The caller owns the objects, which belong to this list's slabs or are a CPU's own.
    pub(super) unsafe fn bring(&self, objects: Chain, freebatch: u32, check: bool) {
        let mut remote = self.remote.lock();
        let before = remote.count();
        // SAFETY: the caller's promise; the holder of the lock owns those on the chain.
        unsafe { remote.append(objects) };
        self.nr_remote.store(remote.count(), Ordering::Relaxed);
        if check || (before < freebatch && remote.count() >= freebatch) {
            self.check.store(true, Ordering::Relaxed);
        }
    }

    /// Takes all that others have brought back; `None` where there is nothing.
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

    /// Objects that the CPU gathers for others.
    pub(super) fn nr_outgoing(&self) -> u32 {
        self.nr_outgoing.load(Ordering::Relaxed)
    }

    /// Lets `work` change what the CPU gathers for others.
    pub(super) fn with_outgoing<R>(&self, work: impl FnOnce(&mut Outgoing) -> R) -> R {
        let mut outgoing = self.outgoing.lock();
        let result = work(&mut outgoing);
        self.nr_outgoing.store(outgoing.objects.count(), Ordering::Relaxed);
        result
    }

    /// Shows `check` what others have brought, and what the CPU gathers; no other thread is at
    /// work.
    pub(super) fn with_chains(&self, mut check: impl FnMut(&Chain, Option<ListId>)) {
        check(&self.remote.lock(), None);
        let outgoing = self.outgoing.lock();
        check(&outgoing.objects, Some(outgoing.to));
    }

    /// Resets the counts for a new cache.
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
