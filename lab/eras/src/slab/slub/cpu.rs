//! A cache's part of a CPU besides the slot's cell: a short list of partial slabs, and counters.
//!
//! The kernel's `kmem_cache_cpu` has two parts here: its `freelist` and `slab` are the slot's cell
//! (table in `slub`), its `partial` list is [`CpuSlab`]. The kernel changes that list with
//! interrupts off. Here every slot has a lock that requests only *try*: a request that does not get
//! it uses the node's list. The partial list has single links, not those of a
//! [`List`](quarry_mm::frame::List), because the second link of a slab counts objects.
//!
//! Equations, under the slot's lock: `slabs = slabs on the list`; all of them are frozen; `objects`
//! = the sum of the free objects that each slab had at its push (more may have been freed since).

use crate::slab::records::{SlabChain, SlabLinks};
use quarry_mm::frame::{FreshZero, Link, Links, Pfn};
use quarry_sys::local;
use quarry_sys::lock::{Guard, LockStats};
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering};

#[repr(C, align(64))]
pub(super) struct CpuSlab {
    head: AtomicU32,
    slabs: AtomicU32,
    objects: AtomicU32,
    pub(super) alloc_slow: AtomicU64,
    pub(super) free_slow: AtomicU64,
    /// Times a CPU took from its slab the objects that other CPUs had freed there.
    pub(super) refills: AtomicU64,
    /// Times a CPU let go of a slab that was used up.
    pub(super) deactivations: AtomicU64,
    /// Number of failed compare-and-swaps of packed words, or of lock bits that were found held.
    pub(super) misses: AtomicU64,
    pub(super) slab_locks: AtomicU64,
}

// SAFETY: a `CpuSlab` consists of atomics, for which 0 is valid.
unsafe impl FreshZero for CpuSlab {}

/// Counts on the running CPU (`stat`, mm/slub.c, Linux 6.17: `raw_cpu_inc`).
#[inline(always)]
pub(super) fn count(counter: &AtomicU64, by: u64) {
    if by > 0 {
        local::add(counter, by);
    }
}

impl CpuSlab {
    /// Zeroes the counts of an earlier cache of the same number. No thread uses the new cache yet.
    pub(super) fn restart(&self) {
        let counts = [&self.alloc_slow, &self.free_slow, &self.refills, &self.deactivations];
        for count in counts.into_iter().chain([&self.misses, &self.slab_locks]) {
            count.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn slab_lock_stats(&self) -> LockStats {
        LockStats {
            acquisitions: self.slab_locks.load(Ordering::Relaxed),
            contentions: self.misses.load(Ordering::Relaxed),
            ..LockStats::default()
        }
    }

    fn head(&self) -> Link<Pfn> {
        Link::from_word(self.head.load(Ordering::Relaxed))
    }

    pub(super) fn first(&self) -> Option<Pfn> {
        self.head().get()
    }

    pub(super) fn slabs(&self) -> u32 {
        self.slabs.load(Ordering::Relaxed)
    }

    fn set(&self, head: Link<Pfn>, slabs: u32, objects: u32) {
        self.head.store(head.word(), Ordering::Relaxed);
        self.slabs.store(slabs, Ordering::Relaxed);
        self.objects.store(objects, Ordering::Relaxed);
    }

    /// Puts a frozen slab with `free` free objects in front. The slab's second link then holds the
    /// number of objects of the list from this slab on.
    pub(super) fn push(&self, _held: &Guard<'_, ()>, links: SlabLinks<'_>, slab: Pfn, free: u32) {
        let objects = self.objects.load(Ordering::Relaxed) + free;
        links.set_next(slab, self.head());
        links.second(slab).store(objects, Ordering::Relaxed);
        self.set(Link::to(slab), self.slabs() + 1, objects);
    }

    /// Takes the first slab, frozen; the caller owns it.
    pub(super) fn pop(&self, _held: &Guard<'_, ()>, links: SlabLinks<'_>) -> Option<Pfn> {
        let slab = self.first()?;
        let next = links.next(slab);
        let objects = next.get().map_or(0, |next| links.second(next).load(Ordering::Relaxed));
        self.set(next, self.slabs() - 1, objects);
        Some(slab)
    }

    /// Takes all slabs if the list holds more than `limit` objects.
    pub(super) fn take_above(&self, _held: &Guard<'_, ()>, limit: u32) -> Option<SlabChain> {
        let above = self.objects.load(Ordering::Relaxed) > limit;
        above.then(|| self.take_all(_held))
    }

    pub(super) fn take_all(&self, _held: &Guard<'_, ()>) -> SlabChain {
        let head = self.head();
        self.set(Link::NONE, 0, 0);
        SlabChain { head }
    }
}
