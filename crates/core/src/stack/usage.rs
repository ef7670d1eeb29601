//! How much memory a heap holds, in bytes: for `mallinfo2` and its relatives.

use super::{Stack, StackConfig};
use crate::frame::FRAME_BYTES;

/// A snapshot; its parts are read one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapUse {
    /// Address space reserved.
    pub reserved_bytes: usize,
    /// Memory of the zones: in use or free.
    pub zone_bytes: usize,
    /// Memory of live mappings and of those kept for reuse.
    pub mapped_bytes: usize,
    /// Live mappings.
    pub mappings: usize,
    /// Objects and blocks in use, in bytes.
    pub used_bytes: usize,
    /// Free objects of slabs, parked ones included.
    pub free_objects: usize,
    /// Free memory of the zones and of slabs, and mappings kept for reuse.
    pub free_bytes: usize,
}

impl<C: StackConfig> Stack<C> {
    /// What the heap holds now. O(caches * slots).
    #[must_use]
    pub fn heap_use(&self) -> HeapUse {
        let inner = self.inner();
        let mut usage = HeapUse { reserved_bytes: self.arena().bytes(), ..HeapUse::default() };
        for zone in inner.pages.zones().all() {
            usage.zone_bytes += zone.managed() as usize * FRAME_BYTES;
            usage.free_bytes += zone.free() as usize * FRAME_BYTES;
        }
        for cache in inner.caches.iter() {
            let stats = self.cache_stats(cache.id());
            let free = (stats.total_objects - stats.active_objects + stats.parked_objects) as usize;
            usage.free_objects += free;
            usage.free_bytes += free * cache.stride();
        }
        let kept = inner.mappings.kept_charged() as usize * FRAME_BYTES;
        usage.mappings = inner.mappings.live();
        usage.mapped_bytes = inner.pages.zones().budget().mapped() as usize * FRAME_BYTES;
        usage.free_bytes += kept;
        usage.used_bytes = (usage.zone_bytes + usage.mapped_bytes).saturating_sub(usage.free_bytes);
        usage
    }
}
