//! All locks of a stack, for `fork` and for statistics.

use super::cached_pages::CachedPages;
use super::instance::{Stack, StackConfig, Watch};
use crate::slab::SlabPolicy;
use core::fmt::{self, Write};
use quarry_sys::lock::LockStats;
use quarry_sys::locks::Visit;
use quarry_sys::percpu::PerCpu;

const MOST_NAMES: usize = 40;

impl<C: StackConfig> Stack<C> {
    /// Visits every lock of an initialised stack. A library calls `adopt_in_child` of each lock in
    /// the child of a fork: when the parent forked, another of its threads may have held the lock
    /// for one step of a fast path. O(caches + slots).
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        let built = self.built();
        built.pages.visit_locks(visit);
        self.slab.visit_locks(&self.context(), visit);
        self.caches.visit_locks(visit);
        self.mappings.visit_locks(visit);
        built.metadata.visit_locks(visit);
        self.footprint.visit_locks(visit);
        self.withheld.visit_locks(visit);
        self.watch.visit_locks(visit);
        C::Cache::visit_locks(self, visit);
        self.fast.percpu.visit_locks(visit);
        #[cfg(feature = "groups")]
        self.groups.visit_locks(visit);
        #[cfg(feature = "heaps")]
        self.own.visit_locks(visit);
    }
}

/// The locks of one name.
#[derive(Clone, Copy)]
pub(super) struct LockKind {
    pub(super) name: &'static str,
    /// How many locks there are: more where groups of CPUs have locks of their own.
    pub(super) locks: u64,
    /// The sums of their counters.
    pub(super) stats: LockStats,
}

/// The names of a stack's counting locks.
pub(super) struct LockKinds {
    kinds: [LockKind; MOST_NAMES],
    count: usize,
}

impl LockKinds {
    /// Empty. A constant, because a function would put a second copy on the thread's stack.
    pub(super) const NONE: Self = Self {
        kinds: [LockKind {
            name: "",
            locks: 0,
            stats: LockStats {
                acquisitions: 0,
                contentions: 0,
                hold_samples: 0,
                hold_ns: 0,
                wait_ns: 0,
            },
        }; MOST_NAMES],
        count: 0,
    };

    /// Sums the counters of all locks, in place: a copy would take 2 KiB of the thread's stack.
    #[inline(never)]
    pub(super) fn sum<C: StackConfig>(&mut self, stack: &Stack<C>) {
        let Self { kinds, count } = self;
        stack.visit_locks(&mut |name, lock| {
            let Some(stats) = lock.stats() else { return };
            let known = kinds[..*count].iter().position(|kind| kind.name == name);
            let kind = known.unwrap_or(*count);
            debug_assert!(kind < MOST_NAMES, "locks have more names than MOST_NAMES");
            if let Some(kind_of_lock) = kinds.get_mut(kind) {
                *count = (*count).max(kind + 1);
                kind_of_lock.name = name;
                kind_of_lock.locks += 1;
                kind_of_lock.stats += stats;
            }
        });
    }

    pub(super) fn each(&self) -> &[LockKind] {
        &self.kinds[..self.count]
    }
}

/// Prints one line per name: locks, acquisitions, contentions, waiting time, mean hold time
/// (sampled).
pub(super) fn print_locks<C: StackConfig>(stack: &Stack<C>, out: &mut dyn Write) -> fmt::Result {
    writeln!(
        out,
        "{:<24} {:>6} {:>14} {:>12} {:>18} {:>16}",
        "lock", "locks", "acquisitions", "contentions", "waittime-total-ns", "holdtime-avg-ns"
    )?;
    let mut kinds = LockKinds::NONE;
    kinds.sum(stack);
    for LockKind { name, locks, stats } in kinds.each() {
        let LockStats { acquisitions, contentions, hold_samples, hold_ns, wait_ns } = stats;
        let mean = hold_ns / hold_samples.max(&1);
        write!(out, "{name:<24} {locks:>6} {acquisitions:>14} {contentions:>12} ")?;
        writeln!(out, "{wait_ns:>18} {mean:>16}")?;
    }
    Ok(())
}
