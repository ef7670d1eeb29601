//! State that all indexes of a page cache share: nodes that wait for the end of walks (`grace.rs`),
//! and for each NUMA node a list of the index nodes that hold only shadow entries, oldest first
//! (`shadow_nodes` in `mm/workingset.c`, Linux 6.12).
//!
//! Equations: an index node is on the list of the NUMA node that holds its memory iff
//! `holds_shadows_only()`; the length of a list is the number of its nodes.
//!
//! Lock order: an index, then a list. The shrinker locks a list first, so it only tries an index's
//! lock.

use super::grace::Grace;
use super::node::NodeRef;
use quarry_mm::frame::{FreshZero, MAX_NODES, NodeId, fresh_zero};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// The shrinker leaves one node for each `1 << this` pages (`count_shadow_nodes`, Linux 6.12): as
/// many shadow entries as pages, if an eighth of a node's entries are shadow entries.
pub const PAGES_PER_SHADOW_NODE_SHIFT: u32 = super::node::LEVEL_BITS - 3;

#[derive(Default)]
struct List {
    oldest: Option<NodeRef>,
    newest: Option<NodeRef>,
}

// SAFETY: the links of listed nodes are only touched under the lock of the list.
unsafe impl Send for List {}
// SAFETY: zero bytes are `None` for both ends.
unsafe impl FreshZero for List {}

impl List {
    fn push(&mut self, node: NodeRef) {
        node.previous.set(self.newest);
        node.next.set(None);
        match self.newest {
            Some(newest) => newest.next.set(Some(node)),
            None => self.oldest = Some(node),
        }
        self.newest = Some(node);
    }

    fn remove(&mut self, node: NodeRef) {
        let (next, previous) = (node.next.replace(None), node.previous.replace(None));
        match next {
            Some(next) => next.previous.set(previous),
            None => self.newest = previous,
        }
        match previous {
            Some(previous) => previous.next.set(next),
            None => self.oldest = next,
        }
    }
}

fresh_zero! {
    /// The lists of nodes that all indexes of a page cache share; zero bytes are empty lists.
    pub struct IndexNodes {
        /// Nodes that left their index.
        pub grace: Grace,
        lists: [CountedLock<List>; MAX_NODES],
        lens: [AtomicU64; MAX_NODES],
        reclaimed: AtomicU64,
    }
}

impl Default for IndexNodes {
    fn default() -> Self {
        Self {
            grace: Grace::default(),
            lists: [const { CountedLock::new(List { oldest: None, newest: None }) }; MAX_NODES],
            lens: [const { AtomicU64::new(0) }; MAX_NODES],
            reclaimed: AtomicU64::new(0),
        }
    }
}

impl IndexNodes {
    /// Puts a node on its list or takes it off, by its entries. The caller holds its index's lock.
    #[inline]
    pub(super) fn update(&self, node: NodeRef) {
        let wanted = node.holds_shadows_only();
        if node.is_listed.get() != wanted {
            self.set(node, wanted);
        }
    }

    #[inline]
    pub(super) fn forget(&self, node: NodeRef) {
        if node.is_listed.get() {
            self.set(node, false);
        }
    }

    fn set(&self, node: NodeRef, listed: bool) {
        let at = node.memory().0 as usize;
        let mut list = self.lists[at].lock();
        node.is_listed.set(listed);
        let len = self.lens[at].load(Relaxed);
        if listed {
            list.push(node);
            self.lens[at].store(len + 1, Relaxed);
        } else {
            list.remove(node);
            self.lens[at].store(len - 1, Relaxed);
        }
    }

    /// Number of index nodes in `memory` that hold only shadow entries (`workingset_nodes`). O(1).
    #[must_use]
    pub fn shadow_nodes(&self, memory: NodeId) -> u64 {
        self.lens[memory.0 as usize].load(Relaxed)
    }

    /// Number of nodes that the shrinker has freed (`workingset_nodereclaim`). O(1).
    #[must_use]
    pub fn reclaimed(&self) -> u64 {
        self.reclaimed.load(Relaxed)
    }

    /// Number of nodes that the shrinker may free in `memory`, if `pages` pages there are cached or
    /// in slabs: one node may stay for each 8 pages (`count_shadow_nodes`, Linux 6.12). O(1).
    #[must_use]
    pub fn count_shadow_nodes(&self, memory: NodeId, pages: u64) -> u64 {
        self.shadow_nodes(memory).saturating_sub(pages >> PAGES_PER_SHADOW_NODE_SHIFT)
    }

    /// Checks the lists of nodes; no other task uses an index. O(nodes on them).
    ///
    /// # Errors
    /// The first equation that does not hold.
    pub fn validate(&self) -> Result<(), Broken> {
        self.grace.validate()?;
        for (memory, (list, len)) in self.lists.iter().zip(&self.lens).enumerate() {
            let check = Check::of("list of shadow nodes").at(memory as u64);
            let list = list.lock();
            let (mut previous, mut node, mut found) = (None, list.oldest, 0u64);
            while let Some(this) = node {
                check.that(this.previous.get() == previous, "previous(next(node)) = node")?;
                check.that(this.is_listed.get(), "a node on a list is listed")?;
                let here = this.memory().0 as usize == memory;
                check.that(here, "a node is on the list of its memory")?;
                found += 1;
                (previous, node) = (node, this.next.get());
            }
            check.that(list.newest == previous, "the newest node is the last one")?;
            check.equal(len.load(Relaxed), found, "length = nodes on the list")?;
        }
        Ok(())
    }

    /// Visits the locks.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.grace.visit_locks(visit);
        for lists in &self.lists {
            visit("index->shadow_nodes", lists);
        }
    }

    /// Under the list's lock, moves the oldest node to the end; returns it and what `lock` returns.
    pub(super) fn rotate<L>(
        &self,
        memory: NodeId,
        lock: impl FnOnce(NodeRef) -> L,
    ) -> Option<(NodeRef, L)> {
        let mut list = self.lists[memory.0 as usize].lock();
        let node = list.oldest?;
        list.remove(node);
        list.push(node);
        Some((node, lock(node)))
    }

    pub(super) fn count_reclaimed(&self) {
        self.reclaimed.fetch_add(1, Relaxed);
    }
}
