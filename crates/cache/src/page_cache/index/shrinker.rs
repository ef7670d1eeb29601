//! The shrinker of nodes that hold only shadow entries (`scan_shadow_nodes` and
//! `shadow_lru_isolate`, `mm/workingset.c`, Linux 6.12).

use super::nodes::IndexNodes;
use super::tree::Index;
use quarry_mm::frame::NodeId;

/// Result of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowScan {
    /// Nodes looked at.
    pub scanned: usize,
    /// Nodes taken out of their index.
    pub freed: usize,
}

impl IndexNodes {
    /// Looks at up to `most` of the oldest of these nodes and takes them out of their indexes, if
    /// the locks of those are free. `find` returns the index of an owner. The caller, who holds no
    /// lock of an index, then calls [`Grace::release`](super::Grace::release). O(most).
    pub fn scan_shadow_nodes<'a, T>(
        &'a self,
        memory: NodeId,
        most: usize,
        find: &dyn Fn(u32) -> Option<&'a Index<T>>,
    ) -> ShadowScan {
        let mut scan = ShadowScan::default();
        while scan.scanned < most {
            // The node stays in its index while the lock of its list is held: a task that takes it
            // out of the index takes it off this list first. So the owner still exists, and once
            // the lock of the index is held, the node stays.
            let oldest = self.shadow.rotate(memory, |node| {
                find(node.owner.get()).and_then(|index| index.try_lock(self))
            });
            let Some((node, index)) = oldest else { break };
            scan.scanned += 1;
            if let Some(mut index) = index {
                index.remove_shadow_node(node);
                self.shadow.count_reclaimed();
                scan.freed += 1;
            }
        }
        scan
    }
}
