//! Nodes that are allocated before the lock of an index is taken.

use super::grace::Grace;
use super::node::{Chain, NodeRef};
use crate::page_cache::host::NodeHost;

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

    /// Number of nodes at hand.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there is no node at hand.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }

    fn take(&self) -> Option<NodeRef> {
        let object = self.host.alloc_node()?;
        // SAFETY: the host gave the object, of the size and alignment of a node, to the caller.
        Some(unsafe { NodeRef::make(object, self.host.node_of(object)) })
    }
}

impl<H: NodeHost> Drop for Preload<'_, H> {
    fn drop(&mut self) {
        // A recycled node may still have walks in it, so it waits again.
        self.grace.defer(&mut self.nodes);
    }
}
