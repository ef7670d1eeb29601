//! Giving memory back: while nobody asks for it, what a background thread does a few times a
//! second; and on the spot, where a request has found nothing.
//!
//! In the background there are four stages, from what callers touched last to what the operating
//! system gets:
//!
//! 1. a cache without an operation since the last look gives its parked objects to its slabs, and
//!    its empty slabs to the page allocator;
//! 2. per-CPU page lists without use give their pages to the zones, others decay;
//! 3. freed mappings that have been kept for the delay are released;
//! 4. free blocks of the zones that were dirty at the last look and still are go to the operating
//!    system, whole pageblocks first.
//!
//! "Dirty at the last look and still" is counted, not tracked per block: of `dirty(then)` and
//! `dirty(now)` frames the smaller number was not needed in between.

use super::{Stack, StackConfig};
use crate::frame::{FRAME_BYTES, MAX_NODES, Order};
use crate::slab::{MAX_CACHES, SlabPolicy};
use quarry_sys::percpu::{PerCpu, SlotIndex};

/// Most bytes purged between two looks at the clock of the caller.
const PURGE_STEP_BYTES: usize = 64 << 20;

/// What the last look saw. Owned by whoever reclaims; a new one sees nothing as idle.
pub struct ReclaimState {
    operations: [u64; MAX_CACHES],
    page_operations: u64,
    dirty: [u32; MAX_NODES],
    kept_runs_seen: u64,
}

impl ReclaimState {
    /// Nothing seen yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            operations: [u64::MAX; MAX_CACHES],
            page_operations: u64::MAX,
            dirty: [0; MAX_NODES],
            kept_runs_seen: 0,
        }
    }
}

impl Default for ReclaimState {
    fn default() -> Self {
        Self::new()
    }
}

/// What one look has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Bytes given back to the operating system.
    pub bytes: usize,
    /// Caches and page lists that were found idle with something to give.
    pub shrunk: u32,
}

impl<C: StackConfig> Stack<C> {
    /// Bytes that the operating system could have at once: dirty free blocks and kept mappings.
    /// O(nodes).
    #[must_use]
    pub fn freeable_bytes(&self) -> usize {
        let inner = self.inner();
        let dirty: usize = inner.pages.zones().all().map(|zone| zone.dirty() as usize).sum();
        dirty * FRAME_BYTES + inner.mappings.kept_bytes()
    }

    /// Gives free blocks and kept mappings to the operating system at once; returns the bytes.
    pub fn purge_free(&self) -> usize {
        let inner = self.inner();
        let mut bytes = inner.mappings.release_kept(&inner.pages);
        for zone in inner.pages.zones().all() {
            bytes += inner.pages.purge(zone.node(), Order::ZERO, usize::MAX);
        }
        bytes
    }

    /// What is kept for later goes back, because a request found nothing now: other caches' parked
    /// objects and empty slabs, per-CPU page lists, freed mappings. Returns whether there was
    /// anything. O(caches * slots).
    #[cold]
    pub(super) fn direct_reclaim(&self) -> bool {
        let pages = self.pages();
        let before = pages.zones().budget().used();
        self.inner().mappings.release_kept(pages);
        self.shrink_all();
        pages.zones().budget().used() < before
    }

    /// Tries once more where a direct reclaim has found something.
    #[inline]
    pub(super) fn with_reclaim<T>(&self, attempt: impl Fn() -> Option<T>) -> Option<T> {
        attempt().or_else(|| if self.direct_reclaim() { attempt() } else { None })
    }

    /// One look at everything. Takes each lock for short moments only; bounded by what there is to
    /// give back.
    pub fn reclaim(&self, state: &mut ReclaimState) -> Reclaimed {
        let mut done = Reclaimed::default();
        self.shrink_idle_caches(state, &mut done);
        self.shrink_page_lists(state, &mut done);
        let inner = self.inner();
        done.bytes += inner.mappings.release_unused_since(&inner.pages, state.kept_runs_seen);
        state.kept_runs_seen = inner.mappings.kept_so_far();
        self.purge_zones(state, &mut done);
        done
    }

    fn shrink_idle_caches(&self, state: &mut ReclaimState, done: &mut Reclaimed) {
        let inner = self.inner();
        for cache in inner.caches.iter() {
            let stats = inner.slab.stats(&self.context(), cache);
            let operations =
                stats.alloc_fast + stats.alloc_slow + stats.free_fast + stats.free_slow;
            let seen = &mut state.operations[cache.id().index()];
            let is_idle = core::mem::replace(seen, operations) == operations;
            let empty_slabs = stats.total_slabs - stats.active_slabs;
            if is_idle && stats.parked_objects + empty_slabs > 0 {
                inner.slab.shrink(&self.context(), cache);
                done.shrunk += 1;
            }
        }
    }

    fn shrink_page_lists(&self, state: &mut ReclaimState, done: &mut Reclaimed) {
        let pages = &self.inner().pages;
        let totals = pages.pcp_totals();
        let operations = totals.allocs + totals.frees + totals.drains;
        if core::mem::replace(&mut state.page_operations, operations) == operations {
            pages.drain_all();
        } else {
            for slot in 0..self.fast.percpu.area().slots() {
                done.shrunk += u32::from(pages.decay(SlotIndex(slot)));
            }
        }
    }

    fn purge_zones(&self, state: &mut ReclaimState, done: &mut Reclaimed) {
        let pages = &self.inner().pages;
        for zone in pages.zones().all() {
            let seen = &mut state.dirty[usize::from(zone.node().0)];
            let mut left = zone.dirty().min(*seen) as usize * FRAME_BYTES;
            for smallest in [Order::PAGEBLOCK, Order::ZERO] {
                while left > 0 {
                    let step = left.min(PURGE_STEP_BYTES);
                    let bytes = pages.purge(zone.node(), smallest, step);
                    if bytes == 0 {
                        break;
                    }
                    done.bytes += bytes;
                    left = left.saturating_sub(bytes);
                }
            }
            *seen = zone.dirty();
        }
    }
}
