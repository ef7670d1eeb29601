//! Moving the pages of a mapping to another extent: by page tables, else by copying.
//!
//! The kernel keeps moved pages as a mapping of their own, never merged with a neighbour, and
//! allows a process `vm.max_map_count` mappings. So once an eighth as many live mappings of Quarry
//! have been moved, Quarry copies pages (exceptions: [`may_move`](MovedMappings::may_move)).
//!
//! Equation: `count` = live mappings whose `link[3]` is 1.

use super::mapping_cache::{CACHED_BYTES, Extent};
use crate::frame::{FRAME_BYTES, Pfn};
use crate::zone::Zones;
use quarry_sys::os::NotMoved;
use quarry_sys::primitive::{AtomicUsize, Ordering};
use quarry_sys::topology::max_map_count;

/// The outcome of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// The pages are in the new extent; the old one is free.
    Gone,
    /// The pages are in both extents.
    Copied,
    /// The pages are in the old extent; the new one is excluded (see `frame/arena.rs`).
    Lost,
}

pub(super) struct MovedMappings {
    count: AtomicUsize,
}

fn mark_of(first: Pfn) -> Pfn {
    first.plus(3)
}

fn is_moved(zones: &Zones, first: Pfn) -> bool {
    zones.frames().link(mark_of(first)) == 1
}

impl MovedMappings {
    pub(super) const fn new() -> Self {
        Self { count: AtomicUsize::new(0) }
    }

    pub(super) fn begin(&self, zones: &Zones, first: Pfn, is_moved: bool) {
        zones.frames().set_link(mark_of(first), u32::from(is_moved));
        self.count.fetch_add(usize::from(is_moved), Ordering::Relaxed);
    }

    pub(super) fn forget(&self, zones: &Zones, first: Pfn) {
        if is_moved(zones, first) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns whether to move the pages of an extent instead of copying them: a move may split one
    /// of the kernel's mappings into two, and `vm.max_map_count` limits their number.
    pub(super) fn may_move(&self, extent: Extent) -> bool {
        const SURELY: usize = 1024;
        let count = self.count.load(Ordering::Relaxed);
        // Copying so large an extent would cost more than a shortage of kernel mappings.
        count < SURELY || count < max_map_count() / 8 || extent.bytes() > CACHED_BYTES
    }

    /// Moves the pages of the mapping in `old` to `new`.
    ///
    /// # Safety
    /// The caller has taken both extents, `new` is at least as long, and no other task uses them.
    pub(super) unsafe fn bring(&self, zones: &Zones, old: Extent, new: Extent) -> Moved {
        let was_moved = is_moved(zones, old.first.first());
        let (from, to) = ((old.first, old.blocks), (new.first, new.blocks));
        // A move would unmap the memory that is kept in the new place.
        let moved = match !zones.arena().keeps() && self.may_move(old) {
            // SAFETY: the caller's promise.
            true => unsafe { zones.memory().move_extent(from, to) },
            false => Err(NotMoved::Unchanged),
        };
        let mark = mark_of(new.first.first());
        match moved {
            Ok(()) => {
                zones.frames().set_link(mark, 1);
                self.count.fetch_add(usize::from(!was_moved), Ordering::Relaxed);
                Moved::Gone
            }
            Err(NotMoved::Unchanged) => {
                // SAFETY: the caller's promise.
                unsafe { copy(zones, old, new) };
                zones.frames().set_link(mark, 0);
                self.count.fetch_sub(usize::from(was_moved), Ordering::Relaxed);
                Moved::Copied
            }
            Err(NotMoved::Lost) => Moved::Lost,
        }
    }
}

/// Copies the frames of `old` that may have been touched, except those that are zero in both.
///
/// # Safety
/// Same as for [`MovedMappings::bring`].
unsafe fn copy(zones: &Zones, old: Extent, new: Extent) {
    let address =
        |extent: Extent, frame: u32| zones.arena().address(extent.first.first().plus(frame));
    for frame in 0..old.charged {
        let (from, to) = (address(old, frame), address(new, frame));
        // SAFETY: a whole frame of a mapped extent that is the caller's, aligned for any type.
        let words = unsafe { from.cast::<[u64; FRAME_BYTES / 8]>().as_ref() };
        if frame < new.charged || words.iter().any(|word| *word != 0) {
            // SAFETY: whole frames of the two extents, which do not overlap.
            unsafe { to.copy_from_nonoverlapping(from, FRAME_BYTES) };
        }
    }
}
