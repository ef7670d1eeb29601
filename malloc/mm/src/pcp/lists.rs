//! The per-CPU page lists of one slot and node, and what they count.
//!
//! Invariants, while the lock is free:
//! * `tuning.count` = sum over lists of blocks * 2^order: a number of pages, not of blocks
//! * the state of the first frame of each listed block is `in_pcp(order of the list, _)`

use super::extent_list::ExtentList;
use super::ring::{MAX_LISTS, Ring};
use crate::frame::fresh_zero;
use quarry_sys::counters::add_fields;
use quarry_sys::local;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

fresh_zero! {
    /// The state that policies tune, named as in `struct per_cpu_pages` (Linux 6.7).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Tuning {
        /// Pages on all lists.
        pub count: u32,
        /// Maximum number of pages on the lists, tuned between `high_min` and `high_max`.
        pub high: u32,
        /// Pages freed in a row; each allocation halves this number.
        pub free_count: u32,
        /// Refills of order 0 take at most `batch << alloc_factor` pages.
        pub alloc_factor: u8,
        /// The next drain takes `batch << free_factor` pages (Linux 5.14 to 6.6).
        pub free_factor: u8,
        /// The previous free was of order 1..=3.
        pub prev_free_high_order: bool,
    }

    /// Counts of the work of a slot's lists. All values only grow.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PcpCounters {
        /// Blocks handed out from the lists, including those that a refill has just fetched.
        pub allocs: u64,
        /// Times an empty list was refilled: critical sections of the zone.
        pub refills: u64,
        /// Blocks fetched by refills.
        pub refilled_blocks: u64,
        /// Blocks freed to the lists.
        pub frees: u64,
        /// Critical sections of the zone that took blocks back.
        pub drains: u64,
        /// Pages given back by drains.
        pub drained_pages: u64,
        /// Blocks handed out past the lists: their order has no list, or the lists were locked.
        pub bypassed_allocs: u64,
        /// Blocks freed directly to the zone.
        pub bypassed_frees: u64,
        /// Critical sections, of the lists or of the zone, that freed blocks of callers: document
        /// 001 reports this count.
        pub critical_sections: u64,
        /// Listed blocks whose state was wrong, and which were dropped.
        pub bad_blocks: u64,
    }
}

impl PcpCounters {
    /// Allocations that took the zone's lock.
    #[must_use]
    pub fn allocs_at_zone(&self) -> u64 {
        self.refills + self.bypassed_allocs
    }

    /// Frees that took the zone's lock.
    #[must_use]
    pub fn frees_at_zone(&self) -> u64 {
        self.drains + self.bypassed_frees
    }
}

add_fields!(
    PcpCounters: allocs, refills, refilled_blocks, frees, drains, drained_pages, bypassed_allocs,
    bypassed_frees, critical_sections, bad_blocks
);

fresh_zero! {
    pub(super) struct Lists {
        pub(super) tuning: Tuning,
        pub(super) rings: [Ring; MAX_LISTS],
        pub(super) counters: PcpCounters,
    }

    /// The lists of one slot and node. A request only tries their lock, and goes to the zone if
    /// another thread holds it. Drains, statistics and `fork` wait for the lock.
    #[repr(align(128))]
    pub(super) struct Pcp {
        pub(super) lists: CountedLock<Lists>,
        /// Blocks handed out past the lists; threads change this and the fields below without lock.
        pub(super) bypassed_allocs: AtomicU64,
        pub(super) bypassed_frees: AtomicU64,
        pub(super) bypass_sections: AtomicU64,
        pub(super) extent_drains: AtomicU64,
        pub(super) drained_extent_pages: AtomicU64,
        pub(super) extents: ExtentList,
    }
}

impl Pcp {
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("pcp->lock", &self.lists);
    }

    pub(super) fn bypass_alloc(&self, blocks: u64) {
        local::add_shared(&self.bypassed_allocs, blocks);
    }

    pub(super) fn bypass_free(&self, blocks: u64) {
        local::add_shared(&self.bypassed_frees, blocks);
        local::add_shared(&self.bypass_sections, 1);
    }

    pub(super) fn note_drain(&self, pages: u32) {
        self.extent_drains.fetch_add(1, Relaxed);
        self.drained_extent_pages.fetch_add(pages.into(), Relaxed);
    }

    /// The counters. Waits for the lock.
    pub(super) fn counters(&self) -> PcpCounters {
        let mut counters = self.lists.lock().counters;
        counters.bypassed_allocs += self.bypassed_allocs.load(Relaxed);
        counters.bypassed_frees += self.bypassed_frees.load(Relaxed);
        counters.critical_sections += self.bypass_sections.load(Relaxed);
        counters.drains += self.extent_drains.load(Relaxed);
        counters.drained_pages += self.drained_extent_pages.load(Relaxed);
        counters
    }
}
