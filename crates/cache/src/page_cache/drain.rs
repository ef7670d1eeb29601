//! Memory that the cache gives back on demand: pages that wait in add batches, which pin them, and
//! parts of its tables that are not in use.

use super::cache::PageCacheRef;
use super::host::Host;
use super::release::Releases;

impl<'a, H: Host> PageCacheRef<'a, H> {
    /// Moves pages from the running CPU's add batch to their lists.
    pub(super) fn drain_slot(self, releases: &mut Releases<'a, H>) {
        let slot = self.host.slot();
        self.tables.lru.drain(&self.tables.pages, slot, &mut |page| releases.push(page));
    }

    /// Moves pages from the add batches of all CPUs to their lists.
    pub(super) fn drain_batches(self) {
        let mut releases = self.releases();
        self.tables.lru.drain_all(&self.tables.pages, &mut |page| releases.push(page));
    }

    /// Moves pages from add batches to their lists, and gives unused index nodes and descriptors
    /// back. Returns the bytes of descriptors that it gave back. O(slots + descriptors).
    pub fn trim(self) -> usize {
        self.drain_batches();
        self.tables.nodes.grace.release(self.host, 1);
        self.tables.tail_blocks.release(self.host);
        self.tables.free.trim(&self.tables.pages, self.host.metadata())
    }
}
