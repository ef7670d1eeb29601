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
    DOWN, FrameTable, FreshZero, GrowingArray, Link, Links, MetadataKind, NodeId, Order, Pfn,
    Window, page_bytes,
};
use quarry_mm::slab::{Cache, SlabContext};
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::{PerCpu, SlotIndex};
use quarry_sys::primitive::AtomicU32;

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
        let window = Window::choose(os, bytes, page_bytes(os))?;
        let edge = window.at(of_previous);
        Ok(Self {
            words: GrowingArray::new(os, edge, frames),
            previous: GrowingArray::new(os, edge, frames),
            growth: CountedLock::new(()),
            _window: window,
        })
    }

    /// Makes the entries of `slab` and of all lower frames accessible.
    fn grow<P: PerCpu>(&self, context: &SlabContext<'_, P>, slab: Pfn) -> OsResult<()> {
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

    pub(super) fn links<'a>(&'a self, frames: &'a FrameTable) -> SlabLinks<'a> {
        SlabLinks { frames, previous: &self.previous }
    }

    /// Allocates a block and makes it a slab, with accessible entries and constructed objects.
    /// Brings its pages in at once if the policy `writes` to each of them anyway. The memory may be
    /// of another node than the wanted one.
    pub(super) fn new_slab<P: PerCpu>(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        (slot, node): (SlotIndex, NodeId),
        writes: bool,
    ) -> Option<Pfn> {
        let page = context.take_block(slot, node, cache)?;
        let (slab, order) = (page.pfn, cache.order());
        if self.grow(context, slab).is_err() {
            context.pages.free(slot, slab, order);
            return None;
        }
        if page.zeroed && writes && order > Order::ZERO {
            context.zones.populate(slab, order.frames());
        }
        // SAFETY: the block is a slab of this cache, and no other task has its address yet.
        unsafe { cache.construct(context.zones.arena().address(slab)) };
        Some(slab)
    }
}

/// The links of slabs on a list.
#[derive(Clone, Copy)]
pub(super) struct SlabLinks<'a> {
    pub(super) frames: &'a FrameTable,
    previous: &'a GrowingArray<AtomicU32, DOWN>,
}

impl SlabLinks<'_> {
    pub(super) fn second(&self, slab: Pfn) -> &AtomicU32 {
        self.previous.at(slab.index())
    }
}

impl Links for SlabLinks<'_> {
    type Member = Pfn;

    fn next_word(&self, slab: Pfn) -> &AtomicU32 {
        self.frames.next_word(slab)
    }

    fn previous_word(&self, slab: Pfn) -> &AtomicU32 {
        self.second(slab)
    }
}

/// Slabs linked by their first link only, on their way to another place. No slab is ever taken out
/// of the middle.
#[derive(Default)]
pub struct SlabChain {
    pub(super) head: Link<Pfn>,
}

impl SlabChain {
    pub(super) fn of(links: SlabLinks<'_>, slab: Pfn) -> Self {
        let mut chain = Self::default();
        chain.push(links, slab);
        chain
    }

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
