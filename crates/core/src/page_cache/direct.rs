//! Reclaim inside a request that has found nothing: bounded in pages and in time, never entered
//! again by the same task, and without anybody's code but Quarry's.

use super::cache::PageCacheRef;
use super::host::Host;
use super::outcome::{ScanFor, ScanRequest};
use crate::frame::{NodeId, fresh_zero};
use quarry_sys::clock::monotonic_ns;
use quarry_sys::primitive::{AtomicU64, Ordering, task};

/// Tasks that may reclaim directly at the same time: more would only wait for each other.
const MOST_TASKS: usize = 16;
/// Classes of durations: four for each power of two of nanoseconds.
const CLASSES: usize = 4 * 32;

fresh_zero! {
    /// Who is in a direct reclaim, and how long those so far have taken.
    pub(super) struct Direct {
        tasks: [AtomicU64; MOST_TASKS],
        classes: [AtomicU64; CLASSES],
        most_ns: AtomicU64,
    }
}

/// How long direct reclaims took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectTimes {
    /// Direct reclaims.
    pub count: u64,
    /// Nanoseconds that half of them did not exceed, as far as classes of a quarter of a power of
    /// two say.
    pub p50_ns: u64,
    /// The same of 99.9 per cent of them.
    pub p999_ns: u64,
    /// The longest one.
    pub most_ns: u64,
}

/// The class of a duration.
fn class_of(ns: u64) -> usize {
    let power = ns.max(4).ilog2();
    let quarter = (ns.max(4) >> (power - 2)) & 3;
    (power as usize * 4 + quarter as usize).min(CLASSES - 1)
}

/// The end of a class, in nanoseconds.
fn end_of(class: usize) -> u64 {
    let (power, quarter) = (class / 4, class as u64 % 4);
    if power < 2 { 4 } else { (5 + quarter) << (power - 2) }
}

impl Direct {
    pub(super) const fn new() -> Self {
        Self {
            tasks: [const { AtomicU64::new(0) }; MOST_TASKS],
            classes: [const { AtomicU64::new(0) }; CLASSES],
            most_ns: AtomicU64::new(0),
        }
    }

    /// Enters the running task; `None` where it is in already, or too many are.
    fn enter(&self) -> Option<Entered<'_>> {
        let own = task::current() as u64;
        if self.tasks.iter().any(|task| task.load(Ordering::Relaxed) == own) {
            return None;
        }
        let is_free = |task: &&AtomicU64| {
            task.load(Ordering::Relaxed) == 0
                && task.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        self.tasks.iter().find(is_free).map(Entered)
    }

    fn note(&self, ns: u64) {
        self.classes[class_of(ns)].fetch_add(1, Ordering::Relaxed);
        self.most_ns.fetch_max(ns, Ordering::Relaxed);
    }

    pub(super) fn times(&self) -> DirectTimes {
        let counts: [u64; CLASSES] =
            core::array::from_fn(|class| self.classes[class].load(Ordering::Relaxed));
        let count: u64 = counts.iter().sum();
        let most_ns = self.most_ns.load(Ordering::Relaxed);
        let quantile = |thousandths: u64| {
            let mut left = (count * thousandths).div_ceil(1000);
            let class = counts.iter().position(|count| {
                let is_there = *count >= left;
                left = left.saturating_sub(*count);
                is_there
            });
            class.map_or(0, end_of).min(most_ns)
        };
        DirectTimes { count, p50_ns: quantile(500), p999_ns: quantile(999), most_ns }
    }
}

/// A task in a direct reclaim; leaves when it is dropped.
struct Entered<'a>(&'a AtomicU64);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl<H: Host> PageCacheRef<'_, H> {
    /// A reclaim for a request that has found nothing: at most 32 pages and 200 us over all nodes,
    /// `near` first, clean pages only; waits for no lock. Does nothing for a task that is in one
    /// already. Returns the pages freed.
    pub fn direct_reclaim(self, near: NodeId) -> u64 {
        let direct = &self.tables.direct;
        let Some(_entered) = direct.enter() else { return 0 };
        let since_ns = monotonic_ns();
        let mut freed = 0;
        let nodes = self.tables.clocks.len() as u8;
        for node in (0..nodes).map(|offset| NodeId((near.0 + offset) % nodes)) {
            let sizes = self.tables.lru.sizes(node);
            let request = ScanRequest {
                who: ScanFor::Direct,
                most: ScanRequest::DIRECT_MOST - freed as usize,
                // Everything once, and what was active a second time.
                most_scanned: (sizes.inactive + 2 * sizes.active) as usize,
                until_ns: since_ns + ScanRequest::DIRECT_NS,
            };
            freed += self.reclaim(node, &request).freed;
            if freed as usize >= ScanRequest::DIRECT_MOST
                || monotonic_ns() >= since_ns + ScanRequest::DIRECT_NS
            {
                break;
            }
        }
        direct.note(monotonic_ns().saturating_sub(since_ns));
        freed
    }

    /// How long direct reclaims took so far. O(1).
    pub fn direct_times(self) -> DirectTimes {
        self.tables.direct.times()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_in_its_class() {
        for ns in (4..10_000).chain([200_000, 1 << 30]) {
            let class = class_of(ns);
            assert!(ns < end_of(class) && ns >= end_of(class - 1).min(ns), "{ns} in class {class}");
            assert!(end_of(class) <= ns + ns / 4 + 1, "{ns}: the class ends at {}", end_of(class));
        }
    }

    #[test]
    fn quantiles_are_those_of_the_durations() {
        let direct = Direct::new();
        (0..999).for_each(|_| direct.note(1000));
        direct.note(100_000);
        let times = direct.times();
        assert_eq!((times.count, times.most_ns), (1000, 100_000));
        assert!((1000..1300).contains(&times.p50_ns), "{times:?}");
        assert!((1000..1300).contains(&times.p999_ns), "999 of 1000: {times:?}");
        direct.note(100_000);
        assert_eq!(direct.times().p999_ns, 100_000);
    }

    #[test]
    fn a_task_is_in_once() {
        let direct = Direct::new();
        let entered = direct.enter();
        assert!(entered.is_some() && direct.enter().is_none());
        drop(entered);
        assert!(direct.enter().is_some());
    }
}
