//! One cache during an operation, with its nodes, CPUs and slabs.

use super::cpu::CpuSlab;
use super::era::Era;
use super::node::Node;
use super::state::{Linked, SlabState, SlabWord};
use super::tables::Tables;
use crate::slab::freelist::{self, Freelist};
use crate::slab::mechanisms::Mechanisms;
use crate::slab::one_cache::{GUARD, OneCache, no_start};
use crate::slab::records::{SlabChain, SlabLinks};
use quarry_mm::frame::{Kind, MetadataKind, Pfn};
use quarry_mm::slab::written_after_free;
use quarry_sys::percpu::{Lists, Object, SlotIndex};
use quarry_sys::primitive::Ordering;

#[inline(always)]
pub(super) fn guard_of(slab: Pfn) -> u64 {
    u64::from(slab.0) + 1
}

/// One cache of one policy, as version `E` of the kernel treats it. The guard of a cell names the
/// slab, by its frame's number + 1.
pub(super) type SlubCache<'a, P, E> = OneCache<'a, P, Tables<E>>;

impl<'a, P: Lists, E: Era> SlubCache<'a, P, E> {
    /// The number that stands for the cache in packed words.
    pub(super) fn tag(&self) -> u8 {
        self.cache.id().kind().0
    }

    pub(super) fn word(&self, slab: Pfn) -> &'a E::Word {
        self.tables.words.word(slab)
    }

    pub(super) fn state(&self, slab: Pfn) -> SlabState {
        self.word(slab).state(self.cache.objects())
    }

    /// Returns whether slabs that a free finds full go onto the CPU's partial list.
    pub(super) fn parks(&self) -> bool {
        E::CPU_PARTIAL && Mechanisms::of(self.context.setup.options).cpu_partial
    }

    /// The bound with which `Era::keeps_empty` compares the length of a node's list.
    pub(super) fn min_partial(&self) -> u32 {
        E::min_partial(self.cache.stride())
    }

    pub(super) fn keeps_empty(&self, node: &Node) -> bool {
        E::keeps_empty(node.nr_partial(), self.min_partial())
    }

    /// The node of a slot's CPU; `None` if that node has no memory.
    pub(super) fn own_node(&self, slot: SlotIndex) -> Option<&'a Node> {
        let has_memory = Mechanisms::of(self.context.setup.options).local_memory;
        has_memory.then(|| self.tables.node(self.cache.id(), self.context.zones.node_of(slot)))
    }

    pub(super) fn cpu(&self, slot: SlotIndex) -> &'a CpuSlab {
        self.tables.cpu(self.cache.id(), slot)
    }

    pub(super) fn links(&self) -> SlabLinks<'a> {
        self.tables.words.links(self.context.zones.frames())
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &'a Node> + use<'a, P, E> {
        self.tables.nodes(self.cache.id())
    }

    pub(super) fn node_of(&self, slab: Pfn) -> &'a Node {
        self.tables.node(self.cache.id(), self.node_of_slab(slab))
    }

    /// Returns a slab to the page allocator. The slab has no object in use, is not frozen and is on
    /// no list. Slabs go one by one, as in the kernel (`discard_slab`): each takes one critical
    /// section of the zone.
    pub(super) fn discard(&self, slab: Pfn) {
        let (context, order) = (self.context, self.cache.order());
        self.node_of(slab).slabs_freed.fetch_add(1, Ordering::Relaxed);
        self.word(slab).end();
        context.zones.frames().set_kind(slab, order.frames(), Kind::NONE);
        context.pages.free(context.percpu.current(), slab, order);
    }

    pub(super) fn discard_chain(&self, mut chain: SlabChain) {
        while let Some(slab) = chain.pop(self.links()) {
            self.discard(slab);
        }
    }

    /// The number of an object in its slab. Aborts if no object starts at that address.
    pub(super) fn number(&self, slab: Pfn, object: Object) -> u32 {
        self.number_in(slab, object).unwrap_or_else(|| no_start(self.cache, object))
    }

    pub(super) fn taken(&self, slab: Pfn, chain: Linked) -> Freelist {
        Freelist { head: Some(self.object(slab, chain.first)), count: chain.count }
    }

    /// The objects of a list, in order. During the walk the caller may relink only objects that the
    /// walk has passed. Aborts if a link leads to no object of the cache: the program has then
    /// written to the free object that holds the link.
    pub(super) fn walk(&self, list: Freelist) -> impl Iterator<Item = Object> + use<'_, P, E> {
        let (mut next, mut left) = (list.head, list.count);
        core::iter::from_fn(move || {
            let object = next?;
            left = left.saturating_sub(1);
            next = (left > 0).then(|| self.linked(object));
            Some(object)
        })
    }

    /// Takes the first object of a list; aborts like [`walk`](Self::walk).
    pub(super) fn pop(&self, list: &mut Freelist) -> Option<Object> {
        let first = list.head?;
        list.count -= 1;
        list.head = (list.count > 0).then(|| self.linked(first));
        Some(first)
    }

    /// The object after a free one that the caller owns and that is not the last.
    fn linked(&self, object: Object) -> Object {
        // SAFETY: the object is free and the caller's.
        let link = unsafe { freelist::next(object) };
        match link.filter(|link| self.is_object(*link)) {
            Some(link) => link,
            None => written_after_free(self.cache, object),
        }
    }

    /// Links the last object of a chain to object `next` of its slab.
    ///
    /// # Safety
    /// `tail` is free and the caller's.
    pub(super) unsafe fn link(&self, slab: Pfn, tail: Object, next: Option<u32>) {
        let next = next.map(|number| self.object(slab, number));
        // SAFETY: the caller's promise is passed on.
        unsafe { freelist::set_next(tail, next) };
    }

    pub(super) fn guard(&self, slot: SlotIndex) -> (u64, Option<Pfn>) {
        if !E::CPU_SLAB {
            return (0, None);
        }
        let guard = self.cell(slot, GUARD);
        let slab = guard.checked_sub(1).and_then(|pfn| u32::try_from(pfn).ok()).map(Pfn);
        (guard, slab)
    }

    /// Starts the cache, which no thread uses yet; zeroes the counts of an earlier cache with the
    /// same number.
    pub(super) fn take_up(&self) {
        let tables = self.tables;
        let earlier = self.nodes().filter(|node| node.take_up()).count();
        if earlier == 0 {
            self.context.metadata.count(MetadataKind::CpuSlabs, tables.bytes_per_cache());
            return;
        }
        for slot in tables.used_slots() {
            self.cpu(slot).restart();
            if E::CPU_SLAB {
                self.restart_counts(slot);
            }
        }
    }
}
