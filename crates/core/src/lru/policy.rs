//! What every LRU policy does: the lists of all nodes, behind the add batches.

use super::page::{Descriptor, DescriptorTable, PageNo};
use super::state::State;
use crate::frame::NodeId;
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::Os;
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Which list of a node.
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

    /// The index of arrays by list.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The list that a page is on, or is to be added to: its flag `ACTIVE` says which.
    #[inline(always)]
    pub(super) fn of(state: State) -> Self {
        if state.has(State::ACTIVE) { Self::Active } else { Self::Inactive }
    }
}

/// Whether a scan waits for the locks of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// It waits.
    Waits,
    /// It gives up where a lock is held: reclaim inside `malloc`.
    Tries,
}

/// Pages on the lists of a node: a snapshot, exact while nobody changes the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pages on the inactive list.
    pub inactive: u64,
    /// Pages on the active list.
    pub active: u64,
}

/// What the lists have done so far. All values only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LruCounters {
    /// Critical sections of the nodes' LRU locks; 0 where locks do not count.
    pub sections: u64,
    /// Critical sections of batch locks; 0 where locks do not count, or under `single`.
    pub batch_sections: u64,
    /// Pages put on lists.
    pub added: u64,
    /// Pages taken off lists, by their release or by a scan.
    pub removed: u64,
    /// Pages that were sentinels when they were taken off, so that the LRU lock was needed.
    pub sentinels: u64,
}

/// What the lists are built from.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) os: &'static dyn Os,
    /// Number of nodes.
    pub(super) nodes: usize,
    /// Whether locks count.
    pub(super) counts: bool,
}

/// The lists of all nodes under one policy.
///
/// A page is on a list iff its flag `LRU` is set, on the one that its flag `ACTIVE` names; nobody
/// changes `ACTIVE` meanwhile. The list is one of its node's, which never changes.
pub(super) trait Lists {
    /// Puts pages, which are on no list and which the caller has pinned, on the fronts of their
    /// lists, one after the other. At most `MOST_ADD_BATCH` pages.
    fn insert(&self, table: &DescriptorTable, slot: SlotIndex, pages: &[PageNo]);

    /// Takes pages off their lists; skips those that are on none. Nobody but the caller knows them.
    fn remove(&self, table: &DescriptorTable, pages: &[PageNo]);

    /// Takes up to `out.len()` pages from the tail of a list, and pins them. `None` if a lock is
    /// held and the caller does not wait.
    fn isolate(
        &self,
        table: &DescriptorTable,
        from: (NodeId, ListKind),
        waiting: Waiting,
        out: &mut [PageNo],
    ) -> Option<usize>;

    /// Pages on the lists of a node.
    fn sizes(&self, node: NodeId) -> Sizes;

    /// What was done so far.
    fn counters(&self) -> LruCounters;

    /// Visits all locks.
    fn visit_locks(&self, visit: &mut Visit<'_>);

    /// Checks the equations. O(pages).
    ///
    /// # Errors
    /// The first equation that does not hold.
    fn validate(&self, table: &DescriptorTable) -> Result<(), Broken>;
}

/// Pages put on and taken off the two lists, written under one lock and read without it.
#[derive(Default)]
pub(super) struct Tally([AtomicU64; 2]);

impl Tally {
    /// Counts `pages` of a list. The caller holds the lock that guards the tally.
    #[inline]
    pub(super) fn count(&self, list: ListKind, pages: usize) {
        let counter = &self.0[list.index()];
        counter.store(counter.load(Relaxed) + pages as u64, Relaxed);
    }

    /// Pages of a list.
    pub(super) fn of(&self, list: ListKind) -> u64 {
        self.0[list.index()].load(Relaxed)
    }

    /// Pages of both lists.
    pub(super) fn both(&self) -> u64 {
        ListKind::ALL.iter().map(|list| self.of(*list)).sum()
    }
}

/// Most pages at the tail of a list that one scan passes because they cannot be pinned: they are
/// being freed, by tasks that have yet to take them off.
pub(super) const MOST_PASSED: usize = if cfg!(quarry_model) { 2 } else { 32 };

/// Pins a page for a scan that holds the locks of its list. A page that nobody but its owner may
/// touch, because it is being freed, stays.
#[inline]
pub(super) fn pin_for_scan(descriptor: &Descriptor) -> bool {
    descriptor.state.try_pin_unused()
}
