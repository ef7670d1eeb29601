//! The records of slabs, outside the slabs, where a program cannot overwrite them: an entry for
//! every frame, used in the first frame of a slab.
//!
//! | array | bytes | what |
//! |---|---|---|
//! | words | 8 | the number in use, and the free objects: see [`Slab`](super::slab::Slab) |
//! | previous | 4 | second link of a slab on a list; the first is the frame table's |

use crate::slab::records;
use quarry_mm::frame::{FrameTable, Link, Links, Pfn};
use quarry_sys::primitive::AtomicU64;

pub(super) type Records = records::Records<AtomicU64>;

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
        self.records.previous(slab)
    }

    fn set_previous(&self, slab: Pfn, previous: Link<Pfn>) {
        self.records.set_previous(slab, previous);
    }
}
