//! Index nodes that left their index while walks may still read them, and nodes that are allocated
//! before the lock of an index is taken.
//!
//! A node goes back to its slab cache after a barrier that ends all walks (`wait_for_walks`, a
//! membarrier(2)). One barrier serves all waiting nodes. If a task may not make that system call,
//! the nodes wait for a task that may.
//!
//! An index that needs nodes reuses waiting ones first, so no more nodes wait than were ever in use
//! at once. A walk that strays into another index through a reused node finds nothing or a page
//! with another key, and looks again under the lock (like `SLAB_TYPESAFE_BY_RCU` of Linux 4.12).

use super::node::{Chain, NodeRef};
use crate::page_cache::host::NodeHost;
use quarry_mm::frame::fresh_zero;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::percpu::Object;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// This many waiting nodes are worth a barrier. A barrier costs some thousand instructions on every
/// CPU that runs the process, and 64 nodes hold 36 KiB.
pub const GRACE_BATCH: usize = 64;

const FREED_AT_ONCE: usize = 32;

fresh_zero! {
    /// The waiting nodes; zero bytes are an empty chain.
    pub struct Grace {
        lock: CountedLock<Chain>,
        /// The length of the chain, read without the lock.
        waiting: AtomicU64,
        freed: AtomicU64,
        recycled: AtomicU64,
        barriers: AtomicU64,
    }
}

/// The counts of a [`Grace`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraceStats {
    /// Nodes that wait now.
    pub waiting: u64,
    /// Nodes that went back to their slab cache.
    pub freed: u64,
    /// Nodes that an index reused while they waited.
    pub recycled: u64,
    /// Barriers that were raised.
    pub barriers: u64,
}

impl Default for Grace {
    fn default() -> Self {
        Self {
            lock: CountedLock::new(Chain::new()),
            waiting: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            recycled: AtomicU64::new(0),
            barriers: AtomicU64::new(0),
        }
    }
}

impl Grace {
    /// Number of nodes that wait; a hint. O(1).
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed) as usize
    }

    /// The counts so far.
    #[must_use]
    pub fn stats(&self) -> GraceStats {
        GraceStats {
            waiting: self.waiting.load(Relaxed),
            freed: self.freed.load(Relaxed),
            recycled: self.recycled.load(Relaxed),
            barriers: self.barriers.load(Relaxed),
        }
    }

    pub(super) fn defer(&self, nodes: &mut Chain) {
        if nodes.len() == 0 {
            return;
        }
        let mut waiting = self.lock.lock();
        waiting.append(nodes);
        self.waiting.store(waiting.len() as u64, Relaxed);
    }

    pub(super) fn recycle(&self) -> Option<NodeRef> {
        if self.waiting() == 0 {
            return None;
        }
        let mut waiting = self.lock.lock();
        let node = waiting.pop()?;
        self.waiting.store(waiting.len() as u64, Relaxed);
        drop(waiting);
        self.recycled.fetch_add(1, Relaxed);
        node.clear();
        Some(node)
    }

    /// Gives waiting nodes back to their slab cache, if at least `least` wait. Returns how many; 0
    /// also if `wait_for_walks` fails. The caller holds no lock of an index. O(nodes).
    pub fn release<H: NodeHost>(&self, host: &H, least: usize) -> usize {
        if self.waiting() < least.max(1) {
            return 0;
        }
        let mut nodes = {
            let mut waiting = self.lock.lock();
            self.waiting.store(0, Relaxed);
            core::mem::take(&mut *waiting)
        };
        if nodes.len() == 0 {
            return 0;
        }
        if !host.wait_for_walks() {
            self.defer(&mut nodes);
            return 0;
        }
        self.barriers.fetch_add(1, Relaxed);
        let count = nodes.len();
        while nodes.len() > 0 {
            let mut freed = [Object::dangling(); FREED_AT_ONCE];
            let some = nodes.len().min(FREED_AT_ONCE);
            for object in &mut freed[..some] {
                if let Some(node) = nodes.pop() {
                    *object = node.object();
                }
            }
            // SAFETY: the nodes came from the host and left their index before the barrier, and
            // since then only this chain has had them.
            unsafe { host.free_nodes(&freed[..some]) };
        }
        self.freed.fetch_add(count as u64, Relaxed);
        count
    }

    pub(super) fn validate(&self) -> Result<(), Broken> {
        let waiting = self.lock.lock();
        let check = Check::of("nodes that wait");
        check.equal(self.waiting.load(Relaxed), waiting.len() as u64, "waiting = length")?;
        check.equal(
            waiting.iter().count() as u64,
            waiting.len() as u64,
            "length = nodes of the chain",
        )?;
        check.that(!waiting.iter().any(|node| node.is_listed.get()), "they are on no list")
    }

    /// Visits the lock.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("index->grace", &self.lock);
    }
}

/// Nodes for the next insertions, taken before the lock of an index: taking a node may reclaim,
/// which needs that lock (`radix_tree_preload`, Linux 4.15). A drop gives back unused nodes.
pub struct Preload<'a, H: NodeHost> {
    host: &'a H,
    grace: &'a Grace,
    pub(super) nodes: Chain,
}

impl<'a, H: NodeHost> Preload<'a, H> {
    /// Begins without nodes. `grace` has nodes to reuse.
    pub const fn new(host: &'a H, grace: &'a Grace) -> Self {
        Self { host, grace, nodes: Chain::new() }
    }

    /// Takes nodes up to `count`; false without memory. The caller holds no index lock. O(count).
    pub fn fill(&mut self, count: usize) -> bool {
        while self.nodes.len() < count {
            let Some(node) = self.grace.recycle().or_else(|| self.take()) else { return false };
            self.nodes.push(node);
        }
        true
    }

    fn take(&self) -> Option<NodeRef> {
        let (object, home) = self.host.alloc_node()?;
        // SAFETY: the host gave the object, of the size and alignment of a node, to the caller.
        Some(unsafe { NodeRef::make(object, home) })
    }
}

impl<H: NodeHost> Drop for Preload<'_, H> {
    fn drop(&mut self) {
        // A recycled node may still have walks in it, so it waits again.
        self.grace.defer(&mut self.nodes);
    }
}
