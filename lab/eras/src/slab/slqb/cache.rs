//! One cache during an operation, with its lists.

use super::list::CacheList;
use super::sizes;
use super::slab_word::{ListId, SlabWord};
use super::tables::Tables;
use crate::slab::freelist::{self, Freelist};
use crate::slab::one_cache::{LIST, OneCache};
use crate::slab::records::SlabLinks;
use quarry_mm::frame::Pfn;
use quarry_mm::slab::{not_in_use, written_after_free};
use quarry_sys::percpu::{Lists, Object, SlotIndex};

/// An error of the program, reported once the thread holds no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misuse {
    /// The object is free already.
    NotInUse(Object),
    /// The program has written to the free object.
    Written(Object),
}

/// One cache. The guard of a cell bounds the list and names its slot:
/// `{slot + 1 : 32 | bound : 32}`.
pub(super) type SlqbCache<'a, P> = OneCache<'a, P, Tables>;

impl<'a, P: Lists> SlqbCache<'a, P> {
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

    /// The list that an object's slab belongs to. The object is in use, or on a list of the caller.
    pub(super) fn list_of(&self, object: Object) -> ListId {
        self.word(self.slab_of(object)).state().list
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

    pub(super) fn report(&self, misuse: Misuse) -> ! {
        match misuse {
            Misuse::NotInUse(object) => not_in_use(self.cache, object),
            Misuse::Written(object) => written_after_free(self.cache, object),
        }
    }

    /// Takes the whole list of the running CPU's slot. `None` if that slot is not `slot`, the list
    /// is empty, or another task has changed it. A list that has gone and come back (ABA) does no
    /// harm: only its head and its length are used.
    pub(super) fn take_list(&self, slot: SlotIndex) -> Option<Freelist> {
        let word = self.cell(slot, LIST);
        (word != 0 && self.store(slot, LIST, word, 0)).then(|| Freelist::of_word(word))
    }
}
