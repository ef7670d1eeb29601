//! The records of slabs: two arrays with an entry per frame, which grow as far as slabs lie.
//!
//! | array | bytes | what |
//! |---|---|---|
//! | words | 4 | the [`SlabWord`] of the slab that starts there |
//! | previous | 4 | second link of a slab on a partial list; the first is the frame table's |

use super::slab_word::SlabWord;
use crate::frame::{DOWN, FRAME_BYTES, FrameTable, GrowingArray, Link, Links, MetadataKind, Pfn};
use crate::frame::{FrontList, Window};
use crate::slab::context::SlabContext;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicU32, Ordering};

/// Bytes per frame that the policy adds to the frame table.
pub(super) const BYTES_PER_FRAME: usize = size_of::<SlabWord>() + size_of::<AtomicU32>();

/// Frames whose entries become accessible together: 64 MiB of memory.
const SECTION_FRAMES: usize = 16 * 1024;

/// A list of slabs with free objects. Nothing looks at its end.
pub(super) type PartialList = FrontList<Pfn>;

/// The arrays.
pub(super) struct Slabs {
    words: GrowingArray<SlabWord>,
    previous: GrowingArray<AtomicU32, DOWN>,
    /// Held while these two grow.
    growth: CountedLock<()>,
    /// The addresses that they lie at; dropped after them.
    _window: Window,
}

impl Slabs {
    /// Reserves addresses for the entries of `frames` frames.
    pub(super) fn reserve(os: &'static dyn Os, frames: usize) -> OsResult<Self> {
        let of_previous = GrowingArray::<AtomicU32, DOWN>::span(os, frames);
        let bytes = of_previous + GrowingArray::<SlabWord>::span(os, frames);
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
        visit("slqb->growth", &self.growth);
    }

    /// The packed word of the slab at `slab`.
    pub(super) fn word(&self, slab: Pfn) -> &SlabWord {
        self.words.at(slab.index())
    }
}

/// Where the links of slabs are.
#[derive(Clone, Copy)]
pub(super) struct SlabLinks<'a> {
    pub(super) frames: &'a FrameTable,
    pub(super) slabs: &'a Slabs,
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
        Link::from_word(self.slabs.previous.at(slab.index()).load(Ordering::Relaxed))
    }

    fn set_previous(&self, slab: Pfn, previous: Link<Pfn>) {
        self.slabs.previous.at(slab.index()).store(previous.word(), Ordering::Relaxed);
    }
}

/// Slabs without objects in use, chained by their first link, on their way to the page allocator.
#[derive(Default)]
pub(super) struct SlabChain {
    head: Link<Pfn>,
}

impl SlabChain {
    pub(super) fn push(&mut self, links: SlabLinks<'_>, slab: Pfn) {
        links.set_next(slab, self.head);
        self.head = Link::to(slab);
    }

    pub(super) fn pop(&mut self, links: SlabLinks<'_>) -> Option<Pfn> {
        let slab = self.head.get()?;
        self.head = links.next(slab);
        Some(slab)
    }
}
