//! What is recorded of each slab outside of it, where no program can overwrite it: an entry for
//! every frame, used in the first frame of a slab.
//!
//! | array | bytes | what |
//! |---|---|---|
//! | words | 8 | objects in use, and which are free: see [`Slab`](super::slab::Slab) |
//! | previous | 4 | second link of a slab on a list; the first is the frame table's |

use crate::frame::{
    DOWN, FRAME_BYTES, FrameTable, GrowingArray, Link, Links, MetadataKind, Pfn, Window,
};
use crate::slab::context::SlabContext;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering};

/// Bytes per frame that the policy adds to the frame table.
pub(super) const BYTES_PER_FRAME: usize = size_of::<AtomicU64>() + size_of::<AtomicU32>();

/// Frames whose entries become accessible together: 64 MiB of memory.
const SECTION_FRAMES: usize = 16 * 1024;

/// The arrays.
pub(super) struct Records {
    words: GrowingArray<AtomicU64>,
    previous: GrowingArray<AtomicU32, DOWN>,
    /// Held while these two grow.
    growth: CountedLock<()>,
    /// The addresses that they lie at; dropped after them.
    _window: Window,
}

impl Records {
    /// Reserves addresses for the entries of `frames` frames.
    pub(super) fn reserve(os: &'static dyn Os, frames: usize) -> OsResult<Self> {
        let of_previous = GrowingArray::<AtomicU32, DOWN>::span(os, frames);
        let bytes = of_previous + GrowingArray::<AtomicU64>::span(os, frames);
        let window = Window::choose(os, bytes, os.page_size().max(FRAME_BYTES))?;
        let edge = window.at(of_previous);
        Ok(Self {
            words: GrowingArray::new(os, edge, frames),
            previous: GrowingArray::new(os, edge, frames),
            growth: CountedLock::new(()),
            _window: window,
        })
    }

    /// Makes the entry of `slab` accessible, and those of all frames in front of it.
    pub(super) fn grow<P: PerCpu>(&self, context: &SlabContext<'_, P>, slab: Pfn) -> OsResult<()> {
        if slab.index() < self.previous.len() {
            return Ok(());
        }
        let _held = self.growth.lock();
        let (known, capacity) = (self.previous.len(), self.words.capacity());
        let len = (slab.index() + 1).next_multiple_of(SECTION_FRAMES).min(capacity);
        if len > known {
            self.words.grow(len)?;
            self.previous.grow(len)?;
            context.metadata.count(MetadataKind::SlabHeaders, (len - known) * BYTES_PER_FRAME);
        }
        Ok(())
    }

    /// Visits the lock of the arrays.
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("slab->growth", &self.growth);
    }

    /// The word of the slab at `slab`.
    pub(super) fn word(&self, slab: Pfn) -> &AtomicU64 {
        self.words.at(slab.index())
    }

    fn previous(&self, slab: Pfn) -> &AtomicU32 {
        self.previous.at(slab.index())
    }
}

/// Where the links of slabs are.
#[derive(Clone, Copy)]
pub(super) struct SlabLinks<'a> {
    pub(super) frames: &'a FrameTable,
    pub(super) records: &'a Records,
}

impl Links for SlabLinks<'_> {
    type Member = Pfn;

    fn next(&self, slab: Pfn) -> Link<Pfn> {
        Link::from_word(self.frames.link(slab))
    }

    fn set_next(&self, slab: Pfn, next: Link<Pfn>) {
        self.frames.set_link(slab, next.word());
    }

    fn previous(&self, slab: Pfn) -> Link<Pfn> {
        Link::from_word(self.records.previous(slab).load(Ordering::Relaxed))
    }

    fn set_previous(&self, slab: Pfn, previous: Link<Pfn>) {
        self.records.previous(slab).store(previous.word(), Ordering::Relaxed);
    }
}
