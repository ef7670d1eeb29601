//! What a stack remembers of its balance: who takes part in it, and what it has done so far.

use super::cost::Costs;
use super::durations::Durations;
use super::pressure::PressureEvents;
use super::shrinkers::Shrinkers;
use crate::zone::Groups;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// See the module. All zero bytes at first.
pub(super) struct Balancing {
    pub(super) shrinkers: Shrinkers,
    pub(super) pressure: PressureEvents,
    pub(super) groups: Groups,
    pub(super) costs: CountedLock<Costs>,
    pub(super) counts: Counts,
    /// What direct reclaims took.
    pub(super) direct: Durations,
}

impl Balancing {
    pub(super) const fn new() -> Self {
        Self {
            shrinkers: Shrinkers::new(),
            pressure: PressureEvents::new(),
            groups: Groups::new(),
            costs: CountedLock::new(Costs::new()),
            counts: Counts::new(),
            direct: Durations::new(),
        }
    }

    /// Visits the lock of the costs.
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("balance->costs", &self.costs);
    }
}

/// Declares counters and their snapshot.
macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters.
        pub(super) struct Counts {
            $(pub(super) $name: AtomicU64,)*
        }

        /// What balances have done so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct BalanceStats {
            $($(#[$doc])* pub $name: u64,)*
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
    /// Balances of the background (`pageoutrun`).
    runs,
    /// Balances that reached their goal.
    reached,
    /// Passes of all balances, each at one priority.
    passes,
    /// Pages of the cache that balances looked at.
    pages_scanned,
    /// Pages of the cache that they evicted.
    pages_freed,
    /// Objects that shrinkers looked at (`slabs_scanned`).
    objects_scanned,
    /// Objects that shrinkers said they had freed.
    objects_freed,
    /// Frames that had left the budget when balances ended.
    frames_freed,
    /// Requests of the heap that were refused, in a program with a page cache.
    refused,
    /// Of these, those that dirty pages would have covered: they were not written in time.
    refused_dirty,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    if amount > 0 {
        counter.fetch_add(amount, Relaxed);
    }
}
