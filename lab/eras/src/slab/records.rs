//! The records of slabs: two arrays with an entry per frame, which grow to the highest slab.
//!
//! | array | what |
//! |---|---|
//! | words | the policy's word of the slab that starts there |
//! | previous | second link of a slab on a list; the first is the frame table's |
//!
//! The second link needs an array because a slab of order 0 has one frame, and so one link word in
//! the frame table.

use quarry_mm::frame::{
    DOWN, FRAME_BYTES, FreshZero, GrowingArray, Link, MetadataKind, Pfn, Window,
};
use quarry_mm::slab::SlabContext;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicU32, Ordering};

/// Frames whose entries become accessible together: 64 MiB of memory.
const SECTION_FRAMES: usize = 16 * 1024;

pub(super) struct Records<W> {
    words: GrowingArray<W>,
    previous: GrowingArray<AtomicU32, DOWN>,
    growth: CountedLock<()>,
    /// The arrays' addresses; dropped after the arrays.
    _window: Window,
}

impl<W: FreshZero> Records<W> {
    /// Bytes per frame that a policy with such records adds to the frame table.
    pub(super) const BYTES_PER_FRAME: usize = size_of::<W>() + size_of::<AtomicU32>();

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

    /// Makes the entries of `slab` and of all lower frames accessible.
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
            let bytes = (len - known) * Self::BYTES_PER_FRAME;
            context.metadata.count(MetadataKind::SlabHeaders, bytes);
        }
        Ok(())
    }

    pub(super) fn visit_locks(&self, name: &'static str, visit: &mut Visit<'_>) {
        visit(name, &self.growth);
    }

    pub(super) fn word(&self, slab: Pfn) -> &W {
        self.words.at(slab.index())
    }

    pub(super) fn previous(&self, slab: Pfn) -> Link<Pfn> {
        Link::from_word(self.previous.at(slab.index()).load(Ordering::Relaxed))
    }

    pub(super) fn second_links(&self) -> &GrowingArray<AtomicU32, DOWN> {
        &self.previous
    }

    pub(super) fn set_previous(&self, slab: Pfn, previous: Link<Pfn>) {
        self.previous.at(slab.index()).store(previous.word(), Ordering::Relaxed);
    }
}
