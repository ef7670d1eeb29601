//! The page cache in the words of `/proc/vmstat`.

use super::cache::PageCacheRef;
use super::counters::Event;
use super::host::Host;
use crate::lru::Sizes;

impl<H: Host> PageCacheRef<'_, H> {
    /// Visits each figure and its name: first gauges, then all events. O(slots + descriptors).
    pub fn visit_vmstat(self, visit: &mut dyn FnMut(&'static str, u64)) {
        let (events, lru) = (self.events(), self.lru_counters());
        let nodes = self.host.pages().zones().all().map(|zone| zone.node());
        let (mut sizes, mut shadow_nodes) = (Sizes::default(), 0);
        for node in nodes {
            let of_node = self.list_sizes(node);
            sizes.inactive += of_node.inactive;
            sizes.active += of_node.active;
            shadow_nodes += self.tables.nodes.shadow_nodes(node);
        }
        let grace = self.tables.nodes.grace.stats();
        let gauges = [
            ("nr_file_pages", events.pages()),
            ("nr_inactive_file", sizes.inactive),
            ("nr_active_file", sizes.active),
            ("nr_unevictable", events.unevictable()),
            ("nr_dirty", events.dirty()),
            ("nr_writeback", events.writeback()),
            ("nr_pinned", self.pinned_frames()),
            ("nr_mappings", self.mappings().into()),
            ("workingset_nodes", shadow_nodes),
            ("workingset_nodereclaim", self.tables.nodes.reclaimed()),
            ("index_nodes_waiting", grace.waiting),
            ("index_barriers", grace.barriers),
            ("lru_sections", lru.sections),
            ("lru_batch_sections", lru.batch_sections),
            ("lru_added", lru.added),
            ("lru_removed", lru.removed),
            ("lru_sentinels", lru.sentinels),
        ];
        let all = Event::ALL.iter().map(|(event, name)| (*name, events[*event]));
        gauges.into_iter().chain(all).for_each(|(name, value)| visit(name, value));
    }
}
