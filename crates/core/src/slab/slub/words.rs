//! SLUB's records of slabs: two arrays with an entry per frame, which grow as far as slabs lie.
//!
//! | array | bytes | what |
//! |---|---|---|
//! | words | 4 or 8 | the word of the slab that starts there: with a lock bit, or packed |
//! | previous | 4 | second link of a slab on a list; the first is the frame table's |
//!
//! Slabs of order 0 have one frame and so one link word in the frame table, which is why the second
//! link needs an array.

use super::state::SlabWord;
use crate::frame::{DOWN, FRAME_BYTES, GrowingArray, MetadataKind, Pfn, Window};
use crate::slab::context::SlabContext;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::Lists;
use quarry_sys::primitive::AtomicU32;

/// Bytes per frame that a policy with words `W` adds to the frame table.
pub(super) const fn bytes_per_frame<W>() -> usize {
    size_of::<W>() + size_of::<AtomicU32>()
}

/// Frames whose entries become accessible together: 64 MiB of memory.
const SECTION_FRAMES: usize = 16 * 1024;

/// The arrays.
pub(super) struct Words<W> {
    words: GrowingArray<W>,
    /// The second links.
    pub(super) previous: GrowingArray<AtomicU32, DOWN>,
    /// Held while these two grow.
    growth: CountedLock<()>,
    /// The addresses that they lie at; dropped after them.
    _window: Window,
}

impl<W: SlabWord> Words<W> {
    /// Reserves addresses for the entries of `frames` frames.
    pub(super) fn reserve(os: &'static dyn Os, frames: usize) -> OsResult<Self> {
        let of_previous = GrowingArray::<AtomicU32, DOWN>::span(os, frames);
        let bytes = of_previous + GrowingArray::<W>::span(os, frames);
        let window = Window::choose(os, bytes, os.page_size().max(FRAME_BYTES))?;
        let edge = window.at(of_previous);
        Ok(Self {
            words: GrowingArray::new(os, edge, frames),
            previous: GrowingArray::new(os, edge, frames),
            growth: CountedLock::new(()),
            _window: window,
        })
    }

    /// Makes the entries of `slab` accessible, and of all frames in front of it.
    pub(super) fn grow<P: Lists>(&self, context: &SlabContext<'_, P>, slab: Pfn) -> OsResult<()> {
        if slab.index() < self.previous.len() {
            return Ok(());
        }
        let _held = self.growth.lock();
        let (known, capacity) = (self.previous.len(), self.words.capacity());
        let len = (slab.index() + 1).next_multiple_of(SECTION_FRAMES).min(capacity);
        if len > known {
            self.words.grow(len)?;
            self.previous.grow(len)?;
            context
                .metadata
                .count(MetadataKind::SlabHeaders, (len - known) * bytes_per_frame::<W>());
        }
        Ok(())
    }

    /// Visits the lock of the arrays.
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("slub->growth", &self.growth);
    }

    /// The word of the slab at `slab`.
    pub(super) fn word(&self, slab: Pfn) -> &W {
        self.words.at(slab.index())
    }
}
