//! Pages that change their extent: by page tables, else by copying.
//!
//! What was moved is a mapping of its own to the kernel, which allows a process a number of them
//! (`vm.max_map_count`); a quarter of that number is for ours.
//!
//! Equation: `count` = live mappings whose `link[3]` is 1.

use super::mapping_cache::{CACHED_BYTES, Extent};
use crate::frame::{FRAME_BYTES, Pfn};
use crate::pcp::PageAllocator;
use quarry_sys::os::NotMoved;
use quarry_sys::primitive::{AtomicUsize, Ordering};
use quarry_sys::topology::max_map_count;

/// What became of the pages of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// They are in the new extent; the old one is nobody's.
    Gone,
    /// They are in both.
    Copied,
    /// They are in the old extent; the new one is out of use.
    Lost,
}

/// How many mappings have been moved and live.
pub(super) struct MovedMappings {
    count: AtomicUsize,
}

/// The frame in whose link word a mapping keeps whether it was moved.
fn mark_of(first: Pfn) -> Pfn {
    first.plus(3)
}

fn is_moved(pages: &PageAllocator, first: Pfn) -> bool {
    pages.frames().link(mark_of(first)) == 1
}

impl MovedMappings {
    pub(super) const fn new() -> Self {
        Self { count: AtomicUsize::new(0) }
    }

    /// Says of a new mapping that it has not been moved.
    pub(super) fn begin(&self, pages: &PageAllocator, first: Pfn) {
        pages.frames().set_link(mark_of(first), 0);
    }

    /// Says of a mapping that it lives no longer.
    pub(super) fn forget(&self, pages: &PageAllocator, first: Pfn) {
        if is_moved(pages, first) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether another move leaves the program enough mappings. Each that was moved may have two
    /// neighbours that were one before.
    fn may_move(&self, extent: Extent) -> bool {
        const SURELY: usize = 1024;
        let count = self.count.load(Ordering::Relaxed);
        // To copy more than that would take longer than to be short of mappings costs.
        count < SURELY || count < max_map_count() / 8 || extent.bytes() > CACHED_BYTES
    }

    /// Brings the pages of the mapping in `old` into `new`.
    ///
    /// # Safety
    /// Both extents are taken by the caller, `new` is at least as long, and nobody uses them
    /// meanwhile.
    pub(super) unsafe fn bring(&self, pages: &PageAllocator, old: Extent, new: Extent) -> Moved {
        let was_moved = is_moved(pages, old.first.first());
        let (from, to) = ((old.first, old.blocks), (new.first, new.blocks));
        let moved = match self.may_move(old) {
            // SAFETY: the caller's promise.
            true => unsafe { pages.memory().move_extent(from, to) },
            false => Err(NotMoved::Unchanged),
        };
        let mark = mark_of(new.first.first());
        match moved {
            Ok(()) => {
                pages.frames().set_link(mark, 1);
                self.count.fetch_add(usize::from(!was_moved), Ordering::Relaxed);
                Moved::Gone
            }
            Err(NotMoved::Unchanged) => {
                // SAFETY: the caller's promise.
                unsafe { copy(pages, old, new) };
                pages.frames().set_link(mark, 0);
                self.count.fetch_sub(usize::from(was_moved), Ordering::Relaxed);
                Moved::Copied
            }
            Err(NotMoved::Lost) => Moved::Lost,
        }
    }
}

/// Copies what may have been touched of an extent; frames that are zero in both stay untouched.
///
/// # Safety
/// As [`MovedMappings::bring`].
unsafe fn copy(pages: &PageAllocator, old: Extent, new: Extent) {
    let address =
        |extent: Extent, frame: u32| pages.arena().address(extent.first.first().plus(frame));
    for frame in 0..old.charged {
        let (from, to) = (address(old, frame), address(new, frame));
        // SAFETY: a whole frame of an extent that is mapped and the caller's; a page is aligned for
        // anything.
        let words = unsafe { from.cast::<[u64; FRAME_BYTES / 8]>().as_ref() };
        if frame < new.charged || words.iter().any(|word| *word != 0) {
            // SAFETY: as above, and the extents do not overlap.
            unsafe { to.copy_from_nonoverlapping(from, FRAME_BYTES) };
        }
    }
}
