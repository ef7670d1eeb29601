//! Sheaves that no cache has, for all caches. The kernel frees their memory instead.

use super::capacity;
use super::sheaf::{Sheaf, Sheaves};
use quarry_mm::frame::Metadata;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;

/// The room of a sheaf is a power of two, up to `capacity::MOST`; there is a list for each.
const CLASSES: usize = capacity::MOST.ilog2() as usize + 1;
const _: () = assert!(capacity::MOST.is_power_of_two());

pub(super) struct Pool {
    classes: CountedLock<[Sheaves; CLASSES]>,
}

fn class(capacity: usize) -> usize {
    capacity.next_power_of_two().ilog2() as usize
}

impl Pool {
    pub(super) const fn new() -> Self {
        Self { classes: CountedLock::new([const { Sheaves::new() }; CLASSES]) }
    }

    /// An empty sheaf with room for at least `capacity` objects (`alloc_empty_sheaf`). `None` if
    /// the OS refuses memory.
    pub(super) fn take(&self, metadata: &Metadata, capacity: usize) -> Option<Sheaf> {
        let class = class(capacity);
        let old = self.classes.lock()[class].pop();
        old.or_else(|| Sheaf::new(metadata, 1 << class))
    }

    /// Keeps an empty sheaf for the next cache that needs one (`free_empty_sheaf`).
    pub(super) fn give(&self, sheaf: Sheaf) {
        debug_assert!(sheaf.is_empty());
        let class = class(sheaf.capacity());
        self.classes.lock()[class].push(sheaf);
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("sheaf->pool", &self.classes);
    }
}
