//! The shrinker of nodes that hold only shadow entries (`scan_shadow_nodes` and
//! `shadow_lru_isolate`, `mm/workingset.c`, Linux 6.12).

use super::shadow_nodes::IndexNodes;
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
    /// Looks at up to `most` of the oldest nodes of shadow entries; takes out those whose index is
    /// not locked. `find` returns the index that an owner's number names. The caller holds no
    /// index's lock, and calls [`Grace::release`](super::Grace::release) afterwards. O(most).
    pub fn scan_shadow_nodes<'a, T>(
        &'a self,
        memory: NodeId,
        most: usize,
        find: &dyn Fn(u32) -> Option<&'a Index<T>>,
    ) -> ShadowScan {
        let mut scan = ShadowScan::default();
        while scan.scanned < most {
            // A node leaves its list before it leaves its index. So under the list's lock the index
            // and its owner exist. Once the index is locked, the node stays in it.
            let oldest = self.rotate(memory, |node| {
                find(node.owner.get()).and_then(|index| index.try_lock(self))
            });
            let Some((node, index)) = oldest else { break };
            scan.scanned += 1;
            if let Some(mut index) = index {
                index.remove_shadow_node(node);
                self.count_reclaimed();
                scan.freed += 1;
            }
        }
        scan
    }
}
