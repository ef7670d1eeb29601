//! The state of a stack's balance: its participants, and counts of its work.

use super::cost::Costs;
use super::pressure::PressureEvents;
use super::shrinkers::Shrinkers;
use quarry_mm::stack::BalanceStats;
use quarry_mm::zone::Groups;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// All zero bytes at first.
pub(super) struct Balancing {
    pub(super) shrinkers: Shrinkers,
    pub(super) pressure: PressureEvents,
    pub(super) groups: Groups,
    pub(super) costs: CountedLock<Costs>,
    pub(super) counts: Counts,
}

impl Balancing {
    pub(super) const fn new() -> Self {
        Self {
            shrinkers: Shrinkers::new(),
            pressure: PressureEvents::new(),
            groups: Groups::new(),
            costs: CountedLock::new(Costs::new()),
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
