//! One cache during an operation: the context, the cache and the tables, with conversions between
//! objects, slabs, lists and cells.

use super::list::CacheList;
use super::sizes;
use super::slab_word::{ListId, SlabWord};
use super::tables::Tables;
use crate::slab::freelist::{self, Freelist};
use crate::slab::records::SlabLinks;
use quarry_mm::frame::{NodeId, Pfn};
use quarry_mm::slab::{Cache, SlabContext, not_in_use, written_after_free};
use quarry_sys::percpu::{ArrayId, Lists, Object, SlotIndex};
use quarry_sys::primitive::Ordering;

/// Word of a cell that holds the list of free objects.
pub(super) const LIST: usize = 0;
/// Word of a cell that bounds the list and names its slot: `{slot + 1 : 32 | bound : 32}`.
pub(super) const GUARD: usize = 1;
pub(super) const POPS: usize = 2;
pub(super) const PUSHES: usize = 3;

/// An error of the program, reported once the thread holds no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misuse {
    /// The object is free already.
    NotInUse(Object),
    /// The program has written to the free object.
    Written(Object),
}

pub(super) struct SlqbCache<'a, P: Lists> {
    pub(super) context: &'a SlabContext<'a, P>,
    pub(super) cache: &'a Cache,
    pub(super) tables: &'a Tables,
}

impl<'a, P: Lists> SlqbCache<'a, P> {
    pub(super) fn array(&self) -> ArrayId {
        self.cache.id().array()
    }

    pub(super) fn freebatch(&self) -> u32 {
        sizes::freebatch(self.cache.stride())
    }

    pub(super) fn hiwater(&self) -> u32 {
        sizes::hiwater(self.cache.stride())
    }

    pub(super) fn word(&self, slab: Pfn) -> &'a SlabWord {
        self.tables.slabs.word(slab)
    }

    pub(super) fn links(&self) -> SlabLinks<'a> {
        self.tables.slabs.links(self.context.zones.frames())
    }

    pub(super) fn list(&self, list: ListId) -> &'a CacheList {
        self.tables.list(self.cache.id(), list)
    }

    pub(super) fn of_slot(&self, slot: SlotIndex) -> &'a CacheList {
        self.list(self.tables.of_slot(slot))
    }

    pub(super) fn node_of(&self, slab: Pfn) -> NodeId {
        let pageblocks = self.context.zones.memory().pageblocks();
        pageblocks.of(slab).tag().node().unwrap_or(NodeId(0))
    }

    pub(super) fn slab_of(&self, object: Object) -> Pfn {
        self.context.slab_of(self.cache, object)
    }

    /// The list that an object's slab belongs to. The object is in use, or on a list of the caller.
    pub(super) fn list_of(&self, object: Object) -> ListId {
        self.word(self.slab_of(object)).state().list
    }

    pub(super) fn object(&self, slab: Pfn, number: u32) -> Object {
        debug_assert!(number < self.cache.objects());
        let address = self.context.zones.arena().address(slab);
        // SAFETY: `slab` is a slab of this cache, and words hold numbers of its objects.
        unsafe { self.cache.object_at(address, number) }
    }

    /// The number of the object that starts at an address of a slab, or `None`.
    pub(super) fn number(&self, slab: Pfn, object: Object) -> Option<u32> {
        let address = self.context.zones.arena().address(slab).as_ptr() as usize;
        let offset = (object.as_ptr() as usize).wrapping_sub(address);
        (offset < self.cache.order().bytes()).then(|| self.cache.object_number(offset)).flatten()
    }

    pub(super) fn pop(&self, list: &mut Freelist) -> Result<Object, Misuse> {
        let first = list.head.expect("the list has objects");
        // SAFETY: the object is free and on a list of the caller.
        let link = unsafe { freelist::next(first) };
        let is_last = list.count == 1;
        if link.is_none() != is_last || link.is_some_and(|link| !self.is_object(link)) {
            return Err(Misuse::Written(first));
        }
        *list = Freelist { head: link, count: list.count - 1 };
        Ok(first)
    }

    /// [`pop`](Self::pop) for callers that hold no lock: `None` if the list is empty.
    pub(super) fn next(&self, list: &mut Freelist) -> Option<Object> {
        list.head?;
        Some(self.pop(list).unwrap_or_else(|misuse| self.report(misuse)))
    }

    fn is_object(&self, address: Object) -> bool {
        let zones = self.context.zones;
        let Some(pfn) = zones.arena().pfn(address.as_ptr()) else { return false };
        zones.frames().kind(pfn) == self.cache.id().kind()
            && self.number(pfn.align_down(self.cache.order()), address).is_some()
    }

    pub(super) fn report(&self, misuse: Misuse) -> ! {
        match misuse {
            Misuse::NotInUse(object) => not_in_use(self.cache, object),
            Misuse::Written(object) => written_after_free(self.cache, object),
        }
    }

    pub(super) fn cell(&self, slot: SlotIndex, word: usize) -> u64 {
        self.context.percpu.area().word(slot, self.array(), word).load(Ordering::Relaxed)
    }

    /// Stores into a word of a slot's cell if the word holds `expected` and this thread runs on
    /// that slot.
    pub(super) fn store(&self, slot: SlotIndex, word: usize, expected: u64, new: u64) -> bool {
        self.context.percpu.compare_store((slot, self.array(), word), expected, new)
    }

    /// Takes the whole list of the running CPU's slot. `None` if that slot is not `slot`, the list
    /// is empty, or another task has changed it. A list that has gone and come back (ABA) does no
    /// harm: only its head and its length are used.
    pub(super) fn take_list(&self, slot: SlotIndex) -> Option<Freelist> {
        let word = self.cell(slot, LIST);
        (word != 0 && self.store(slot, LIST, word, 0)).then(|| Freelist::of_word(word))
    }
}
