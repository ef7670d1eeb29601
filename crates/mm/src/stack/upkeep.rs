//! The work of a background thread for a stack, and its questions.
//!
//! Upkeep is the interface for a library that looks after a stack, as `libquarry.so` does; users
//! call [`Stack::trim`] and [`Stack::reclaim`].

use super::cached_pages::CachedPages;
use super::instance::{Stack, StackConfig, Watch};
use super::reclaim::{ReclaimState, Reclaimed};
use quarry_sys::locks::Visit;

/// See the module; from [`Stack::upkeep`].
pub struct Upkeep<'a, C: StackConfig>(&'a Stack<C>);

impl<C: StackConfig> Stack<C> {
    /// The upkeep of a stack: not for its users, but for a library on top of it.
    #[inline(always)]
    pub fn upkeep(&self) -> Upkeep<'_, C> {
        Upkeep(self)
    }
}

impl<C: StackConfig> Upkeep<'_, C> {
    /// Bytes that the operating system could have at once: dirty free blocks and cached mappings.
    /// O(nodes).
    #[must_use]
    pub fn freeable_bytes(self) -> usize {
        self.0.freeable_bytes()
    }

    /// Bytes in barns. O(1).
    #[must_use]
    pub fn parked_in_barns(self) -> usize {
        self.0.parked_in_barns()
    }

    /// Bytes in barns and in the arrays of CPUs. O(caches * slots that are awake).
    #[must_use]
    pub fn parked_bytes(self) -> usize {
        self.0.parked_bytes()
    }

    /// Bytes in barns, and what the arrays of CPUs have room for. O(1).
    #[must_use]
    pub fn parked_bytes_at_most(self) -> usize {
        self.0.parked_bytes_at_most()
    }

    /// Bytes of freed mappings in the mapping cache. O(1).
    #[must_use]
    pub fn cached_bytes(self) -> usize {
        self.0.cached_bytes()
    }

    /// One look at everything, which notes what is due; only cached mappings go back at once.
    pub fn look(self, state: &mut ReclaimState) -> Reclaimed {
        self.0.look(state)
    }

    /// Same as [`look`](Self::look) at `now_ns`, where looks are half a `delay_ns` apart: memory
    /// that is needed again soon after it went back is kept longer the next time, for up to eight
    /// delays.
    pub fn look_at(self, state: &mut ReclaimState, now_ns: u64, delay_ns: u64) -> Reclaimed {
        self.0.look_at(state, now_ns, delay_ns)
    }

    /// Purges up to 16 MiB of what the last look found due. Returns the bytes, `None` where nothing
    /// is due any more.
    pub fn purge_due(self, state: &mut ReclaimState) -> Option<usize> {
        self.0.purge_due(state)
    }

    /// A step through the sparse slabs that the last look found at rest: gives back pages without
    /// an object in use. Returns the bytes, `None` where nothing is due any more.
    pub fn purge_sparse(self, state: &mut ReclaimState) -> Option<usize> {
        self.0.purge_sparse(state)
    }

    /// Gives free blocks and cached mappings to the operating system at once; returns the bytes.
    pub fn purge_free(self) -> usize {
        self.0.purge_free()
    }

    /// Slots, barns, empty slabs and per-CPU page lists go back to the zones. Slots of other CPUs
    /// stay as they are where the calling thread may not stop them (see
    /// [`reaches_every_slot`](quarry_sys::percpu::PerCpu::reaches_every_slot)).
    pub fn shrink_all(self) {
        self.0.shrink_all();
    }

    /// Lets the next request be a sample for guard pages, if one is due. O(1).
    pub fn sample_if_due(self) {
        self.0.watch.tick(self.0);
    }

    /// Counts a request of `frames` frames that was refused. O(slots).
    pub fn note_refusal(self, frames: usize) {
        C::Cache::note_refusal(self.0, frames);
    }

    /// In the child of a fork: ends what other threads were about to do with callbacks.
    pub fn adopt_in_child(self) {
        self.0.pages().zones().budget().adopt_in_child();
        self.0.cache.adopt_in_child();
    }

    /// Visits every lock of the stack. In the child of a fork, a library calls `adopt_in_child` of
    /// each: that lets go of what other threads held for one step of a fast path. O(caches +
    /// slots).
    pub fn visit_locks(self, visit: &mut Visit<'_>) {
        self.0.visit_locks(visit);
    }
}
