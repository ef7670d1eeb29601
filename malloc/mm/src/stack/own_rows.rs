//! Own heaps in statistics: each has a row among the caches.

use super::instance::{Stack, StackConfig};
use crate::own_heap::{OwnHeapStats, Use};
use core::fmt::Write;
use quarry_record::{CacheRow, Name};
use quarry_sys::report::Line;

/// The row of a heap. A heap has objects of many sizes: the row has their mean, and counts each
/// page as a slab.
fn row(stats: &OwnHeapStats) -> CacheRow {
    let (live, pages) = (stats.allocs.saturating_sub(stats.frees), u64::from(stats.charged));
    let mean = (stats.used / live.max(1)) as u32;
    let mut name = Line::<40>::default();
    // A line takes what fits, and a name may be cut.
    let kind = match stats.serves {
        Use::Program => "heap",
        Use::Group => "group",
        Use::Rest => "rest",
    };
    let _ = write!(name, "{kind}:{}", stats.name.as_str());
    CacheRow {
        name: Name::new(core::str::from_utf8(name.as_bytes()).unwrap_or("heap:?")),
        object_bytes: mean,
        stride: mean,
        slab_objects: (live / pages.max(1)).max(1) as u32,
        slab_frames: 1,
        active_objects: live,
        total_objects: live,
        active_slabs: pages,
        total_slabs: pages,
        slabs_allocated: pages,
        alloc_slow: stats.allocs,
        free_slow: stats.frees,
        ..CacheRow::default()
    }
}

impl<C: StackConfig> Stack<C> {
    /// Calls `each` with the row of every own heap that has had an object.
    pub(super) fn own_rows(&self, each: &mut dyn FnMut(&CacheRow)) {
        let stats = self.own.each().map(|(_, heap)| heap.stats());
        stats.filter(|stats| stats.allocs > 0).for_each(|stats| each(&row(&stats)));
    }
}
