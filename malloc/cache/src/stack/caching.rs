//! The cache of a stack: a page cache, and the balance of the budget that it shares with the heap.

use super::cost::Costs;
use super::pressure::PressureEvents;
use super::shrinkers::Shrinkers;
use crate::lru::{LruOptions, LruPolicy, Splice};
use crate::page_cache::{PageCache, PageCacheOptions};
use quarry_mm::stack::BalanceStats;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Options of the cache of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCachingOptions<P: LruPolicy = Splice> {
    /// Options of the lists of cached pages.
    pub lru: LruOptions<P>,
    /// Options of the page cache.
    pub pages: PageCacheOptions,
}

/// The page cache of a stack, and its balance. All zero bytes at first. `balancing` comes first: a
/// program that caches no page may still use the balance, and then touches only the start.
#[repr(C)]
pub struct PageCaching<P: LruPolicy = Splice> {
    pub(super) balancing: Balancing,
    pub(super) pages: PageCache<P>,
}

/// The state of a stack's balance: its participants, and counts of its work. All zero bytes at
/// first.
pub(super) struct Balancing {
    pub(super) shrinkers: Shrinkers,
    pub(super) pressure: PressureEvents,
    pub(super) costs: CountedLock<Costs>,
    pub(super) debt: Debt,
    pub(super) counts: Counts,
}

/// The debt of shrinkers to the page cache (see `debt.rs`). All zero bytes at first.
pub(super) struct Debt {
    /// Pages that were evicted for the heap, and that no shrinker has been asked for.
    pub(super) owed: AtomicU64,
    /// Of these, the pages that the last payment left, because there was memory for them; and the
    /// pages that were listed at its end.
    pub(super) left: AtomicU64,
    pub(super) listed: AtomicU64,
    /// When a request last evicted a page, by the coarse clock.
    pub(super) evicted_ns: AtomicU64,
    /// Naps that requests may take until shrinkers are asked again.
    pub(super) naps: AtomicU32,
}

impl Debt {
    const fn new() -> Self {
        let [owed, left, listed, evicted_ns] = [const { AtomicU64::new(0) }; 4];
        Self { owed, left, listed, evicted_ns, naps: AtomicU32::new(0) }
    }
}

impl Balancing {
    pub(super) const fn new() -> Self {
        Self {
            shrinkers: Shrinkers::new(),
            pressure: PressureEvents::new(),
            costs: CountedLock::new(Costs::new()),
            debt: Debt::new(),
            counts: Counts::new(),
        }
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("balance->costs", &self.costs);
    }
}

macro_rules! counts {
    ($($name:ident)*) => {
        pub(super) struct Counts {
            $(pub(super) $name: AtomicU64,)*
        }

        impl Counts {
            const fn new() -> Self {
                Self { $($name: AtomicU64::new(0),)* }
            }

            pub(super) fn snapshot(&self) -> BalanceStats {
                BalanceStats { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counts! {
    runs reached passes pages_scanned pages_freed objects_scanned objects_freed frames_freed
    refused refused_dirty
}

pub(super) fn add(counter: &AtomicU64, amount: u64) {
    if amount > 0 {
        counter.fetch_add(amount, Relaxed);
    }
}
