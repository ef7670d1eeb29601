//! A cache's part of a NUMA node: slabs that have both objects in use and free ones, under the
//! list lock, and how many slabs there are.
//!
//! Equations: `nr_partial = slabs on the list`; each of them is not frozen and has a free object;
//! no other slab of the node is like that.

use super::words::Words;
use crate::frame::{FrameTable, FreshZero, MaybePfn, Pfn};
use quarry_sys::lock::CountedLock;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering};

/// A list of slabs, linked by the frame table's link word and the words' `previous`.
#[derive(Default)]
pub(super) struct PartialList {
    head: MaybePfn,
    tail: MaybePfn,
}

/// Where the links of slabs are.
#[derive(Clone, Copy)]
pub(super) struct Links<'a> {
    pub(super) frames: &'a FrameTable,
    pub(super) words: &'a Words,
}

impl Links<'_> {
    /// The slab behind `slab`.
    pub(super) fn next(self, slab: Pfn) -> Option<Pfn> {
        MaybePfn(self.frames.link(slab)).get()
    }

    pub(super) fn set_next(self, slab: Pfn, next: Option<Pfn>) {
        self.frames.set_link(slab, MaybePfn::new(next).0);
    }

    /// The slab in front of `slab`, on a node's list.
    pub(super) fn previous(self, slab: Pfn) -> Option<Pfn> {
        MaybePfn(self.words.previous(slab).load(Ordering::Relaxed)).get()
    }

    fn set_previous(self, slab: Pfn, previous: Option<Pfn>) {
        let value = MaybePfn::new(previous).0;
        self.words.previous(slab).store(value, Ordering::Relaxed);
    }
}

impl PartialList {
    /// The first one.
    pub(super) fn first(&self) -> Option<Pfn> {
        self.head.get()
    }

    /// The last one.
    pub(super) fn last(&self) -> Option<Pfn> {
        self.tail.get()
    }

    fn push_back(&mut self, links: Links<'_>, slab: Pfn) {
        links.set_next(slab, None);
        links.set_previous(slab, self.tail.get());
        match self.tail.get() {
            Some(tail) => links.set_next(tail, Some(slab)),
            None => self.head = MaybePfn::new(Some(slab)),
        }
        self.tail = MaybePfn::new(Some(slab));
    }

    fn remove(&mut self, links: Links<'_>, slab: Pfn) {
        let (next, previous) = (links.next(slab), links.previous(slab));
        match previous {
            Some(previous) => links.set_next(previous, next),
            None => self.head = MaybePfn::new(next),
        }
        match next {
            Some(next) => links.set_previous(next, previous),
            None => self.tail = MaybePfn::new(previous),
        }
    }
}

/// One cache's part of one node.
#[repr(C, align(64))]
pub(super) struct Node {
    pub(super) list: CountedLock<PartialList>,
    /// Slabs on the list; written under its lock, read by those who would take it for nothing.
    nr_partial: AtomicU32,
    /// Slabs taken from the page allocator, and given back.
    pub(super) slabs_allocated: AtomicU64,
    pub(super) slabs_freed: AtomicU64,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            list: CountedLock::new(PartialList::default()),
            nr_partial: AtomicU32::new(0),
            slabs_allocated: AtomicU64::new(0),
            slabs_freed: AtomicU64::new(0),
        }
    }
}

// SAFETY: a free lock around an empty list and counters of 0 are all zero bytes.
unsafe impl FreshZero for Node {}

impl Node {
    /// Slabs on the list.
    pub(super) fn nr_partial(&self) -> u32 {
        self.nr_partial.load(Ordering::Relaxed)
    }

    /// Adds a slab at the end: those in front have been here longer and are emptier by now.
    pub(super) fn push_back(&self, list: &mut PartialList, links: Links<'_>, slab: Pfn) {
        list.push_back(links, slab);
        self.nr_partial.store(self.nr_partial() + 1, Ordering::Relaxed);
    }

    /// Takes a slab off.
    pub(super) fn remove(&self, list: &mut PartialList, links: Links<'_>, slab: Pfn) {
        list.remove(links, slab);
        self.nr_partial.store(self.nr_partial() - 1, Ordering::Relaxed);
    }

    /// Takes the first slab off.
    pub(super) fn pop_front(&self, list: &mut PartialList, links: Links<'_>) -> Option<Pfn> {
        let first = list.first()?;
        self.remove(list, links, first);
        Some(first)
    }
}

/// Slabs chained by their first link alone, on their way from one place to another.
#[derive(Default)]
pub(super) struct SlabChain {
    pub(super) head: MaybePfn,
}

impl SlabChain {
    pub(super) fn push(&mut self, links: Links<'_>, slab: Pfn) {
        links.set_next(slab, self.head.get());
        self.head = MaybePfn::new(Some(slab));
    }

    pub(super) fn pop(&mut self, links: Links<'_>) -> Option<Pfn> {
        let slab = self.head.get()?;
        self.head = MaybePfn::new(links.next(slab));
        Some(slab)
    }
}
