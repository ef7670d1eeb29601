//! The records of slabs: two arrays with an entry per frame, which grow to the highest slab.
//!
//! | array | bytes | what |
//! |---|---|---|
//! | words | 4 | the [`SlabWord`] of the slab that starts there |
//! | previous | 4 | second link of a slab on a partial list; the first is the frame table's |

use super::slab_word::SlabWord;
use crate::slab::records::Records;
use quarry_mm::frame::{FrameTable, FrontList, Link, Links, Pfn};

/// A list of slabs with free objects. Nothing needs its tail.
pub(super) type PartialList = FrontList<Pfn>;

pub(super) type Slabs = Records<SlabWord>;

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
        self.slabs.previous(slab)
    }

    fn set_previous(&self, slab: Pfn, previous: Link<Pfn>) {
        self.slabs.set_previous(slab, previous);
    }
}

/// Slabs without objects in use, linked by their first link, on their way to the page allocator.
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
