//! State that all indexes of a page cache share: nodes that wait, and nodes of shadow entries.

use super::grace::Grace;
use super::shadow_nodes::{PAGES_PER_SHADOW_NODE_SHIFT, ShadowNodes};
use quarry_mm::frame::{NodeId, fresh_zero};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;

fresh_zero! {
    /// The lists of nodes that all indexes of a page cache share; zero bytes are empty lists.
    pub struct IndexNodes {
        /// Nodes that left their index.
        pub grace: Grace,
        pub(super) shadow: ShadowNodes,
    }
}

impl Default for IndexNodes {
    fn default() -> Self {
        Self::new()
    }
}

impl IndexNodes {
    /// No nodes.
    #[must_use]
    pub const fn new() -> Self {
        Self { grace: Grace::new(), shadow: ShadowNodes::new() }
    }

    /// Number of index nodes in `memory` that hold only shadow entries (`workingset_nodes`). O(1).
    #[must_use]
    pub fn shadow_nodes(&self, memory: NodeId) -> u64 {
        self.shadow.len(memory)
    }

    /// Number of nodes that the shrinker has freed (`workingset_nodereclaim`). O(1).
    #[must_use]
    pub fn reclaimed(&self) -> u64 {
        self.shadow.reclaimed()
    }

    /// Number of nodes that the shrinker may free in `memory`, if `pages` pages there are cached or
    /// in slabs: one node may stay for each 8 pages (`count_shadow_nodes`, Linux 6.12). O(1).
    #[must_use]
    pub fn count_shadow_nodes(&self, memory: NodeId, pages: u64) -> u64 {
        self.shadow.len(memory).saturating_sub(pages >> PAGES_PER_SHADOW_NODE_SHIFT)
    }

    /// Checks the lists of nodes; no other task uses an index. O(nodes on them).
    ///
    /// # Errors
    /// The first equation that does not hold.
    pub fn validate(&self) -> Result<(), Broken> {
        self.grace.validate()?;
        self.shadow.validate()
    }

    /// Visits the locks.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.grace.visit_locks(visit);
        self.shadow.visit_locks(visit);
    }
}
