//! The trait of LRU policies, and the code that policies share.

use super::page::{DescriptorTable, PageNo};
use super::state::State;
use core::fmt::Debug;
use quarry_mm::frame::NodeId;
use quarry_sys::broken::Broken;
use quarry_sys::lock::{Chosen, CountedLock, Guard};
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// A list of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Pages that are evicted next, unless they are used again.
    Inactive,
    /// Pages that were used repeatedly.
    Active,
}

impl ListKind {
    /// Both lists, by index.
    pub const ALL: [Self; 2] = [Self::Inactive, Self::Active];

    /// The index of the list in arrays that have an entry for each list.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The list that a page is on or will be added to, by its flag `ACTIVE`.
    #[inline(always)]
    #[must_use]
    pub fn of(state: State) -> Self {
        if state.has(State::ACTIVE) { Self::Active } else { Self::Inactive }
    }
}

/// The way in which a scan waits for the locks of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The scan waits.
    Waits,
    /// The scan waits, except for a lock that the running task itself holds. Reclaim inside
    /// `malloc` uses this, also in a signal handler. A task with such a lock requests no memory, so
    /// each wait ends. (With `try_lock`, `malloc` would fail while a lock's holder has no CPU.)
    ForOthers,
}

impl Waiting {
    /// Takes a lock; `None` if this may not wait and the running task itself holds the lock.
    pub fn lock<T>(self, lock: &CountedLock<T, Chosen>) -> Option<Guard<'_, T, Chosen>> {
        match self {
            Self::Waits => Some(lock.lock()),
            Self::ForOthers => lock.lock_of_others(),
        }
    }
}

/// Pages on the lists of a node: a snapshot, exact while no task changes the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pages on the inactive list.
    pub inactive: u64,
    /// Pages on the active list.
    pub active: u64,
}

/// Counters of the lists. All values only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LruCounters {
    /// Critical sections of the nodes' LRU locks; 0 if the locks do not count them.
    pub sections: u64,
    /// Critical sections of batch locks; 0 if the locks do not count them, and under `single`.
    pub batch_sections: u64,
    /// Pages put on lists.
    pub added: u64,
    /// Pages taken off lists, by their release or by a scan.
    pub removed: u64,
    /// Pages of `removed` that scans took off.
    pub isolated: u64,
    /// Pages put on lists though only their add batch still pinned them, and taken off again.
    pub dead_added: u64,
    /// Released pages that were sentinels, and so needed the LRU lock.
    pub sentinels: u64,
}

/// Parameters of the lists.
#[derive(Clone, Copy)]
pub struct Setup {
    /// The system from which the lists get their memory.
    pub os: &'static dyn Os,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of slots.
    pub slots: usize,
    /// Maximum number of pages of a batch.
    pub batch: usize,
    /// True if locks count acquisitions, contention and time.
    pub counts: bool,
}

/// A policy: the locking of the lists.
pub trait LruPolicy: Copy + Debug + Default + Eq + Send + Sync + 'static {
    /// The lists of all nodes.
    type Lists: Lists;

    /// The name of the policy, as tables print it.
    fn name(&self) -> &'static str;

    /// Empty lists.
    ///
    /// # Errors
    /// The error of the OS.
    fn build(&self, setup: Setup) -> OsResult<Self::Lists>;
}

/// The lists of all nodes under one policy. A page is on a list iff its flag `LRU` is set. Its node
/// and its flag `ACTIVE` select the list; neither changes while the page is on it.
pub trait Lists: Send + Sync + 'static {
    /// Puts at most `MOST_ADD_BATCH` pages on the fronts of their lists, one after the other. The
    /// pages are on no list, and the caller has pinned them.
    fn insert(&self, table: &DescriptorTable, slot: SlotIndex, pages: &[PageNo]);

    /// Takes pages off their lists; skips pages that are on no list. The caller owns them.
    fn remove(&self, table: &DescriptorTable, pages: &[PageNo]);

    /// Takes up to `out.len()` pages from the tail of a list, and pins them. Up to `MOST_PASSED`
    /// pages that cannot be pinned go to the front. Returns how many it took. Ends early if
    /// `waiting` is `ForOthers` and the running task itself holds a lock that this call needs.
    fn isolate(
        &self,
        table: &DescriptorTable,
        from: (NodeId, ListKind),
        waiting: Waiting,
        out: &mut [PageNo],
    ) -> usize;

    /// Pages on the lists of a node.
    fn sizes(&self, node: NodeId) -> Sizes;

    /// The counters so far.
    fn counters(&self) -> LruCounters;

    /// Visits all locks.
    fn visit_locks(&self, visit: &mut Visit<'_>);

    /// Checks the equations. O(pages).
    ///
    /// # Errors
    /// The first equation that does not hold.
    fn validate(&self, table: &DescriptorTable) -> Result<(), Broken>;
}

/// A count of pages for each of the two lists, written under one lock and read without it.
#[derive(Default)]
pub struct Tally([AtomicU64; 2]);

impl Tally {
    /// Counts `pages` of a list. The caller holds the lock that guards the tally.
    #[inline]
    pub fn count(&self, list: ListKind, pages: usize) {
        add_to(&self.0[list.index()], pages as u64);
    }

    /// Pages of a list.
    #[must_use]
    pub fn of(&self, list: ListKind) -> u64 {
        self.0[list.index()].load(Relaxed)
    }

    /// Pages of both lists.
    #[must_use]
    pub fn both(&self) -> u64 {
        ListKind::ALL.iter().map(|list| self.of(*list)).sum()
    }
}

/// Maximum number of pages that a scan moves to the front because they are in no index.
const MOST_PASSED: usize = if cfg!(quarry_model) { 2 } else { 32 };

/// The tail of a list whose lock is held.
pub trait Tail {
    /// The last page; `None` for an empty list, or if the scan may not wait for the page's lock.
    fn last(&mut self) -> Option<PageNo>;

    /// Takes the last page off the list, after the caller has pinned it.
    fn take(&mut self, page: PageNo);

    /// Moves the last page, which cannot be pinned, to the front.
    fn pass(&mut self, page: PageNo);
}

/// Fills `out` with pages from the tail of a list, and pins them. Returns how many it took.
pub fn scan(table: &DescriptorTable, tail: &mut impl Tail, out: &mut [PageNo]) -> usize {
    let (mut taken, mut passed, mut first_passed) = (0, 0, None);
    while taken < out.len() && passed < MOST_PASSED {
        let Some(page) = tail.last().filter(|page| first_passed != Some(*page)) else { break };
        if table.at(page).state.try_pin_unused() {
            tail.take(page);
            out[taken] = page;
            taken += 1;
        } else {
            tail.pass(page);
            passed += 1;
            first_passed.get_or_insert(page);
        }
    }
    taken
}

/// Maximum number of pages released in one hold of the LRU lock (`SWAP_CLUSTER_MAX`, Linux 4.15).
pub const SWAP_CLUSTER_MAX: usize = if cfg!(quarry_model) { 2 } else { 32 };

/// Adds to a counter that only the holder of one lock writes, by a plain load and store.
#[inline]
pub fn add_to(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}
