//! Allocation once the CPU's list is empty.
//!
//! Sources in order: objects that other CPUs have brought back, if the check flag is set; the first
//! partial slab, one object at a time; the lists of nodes, where there are several nodes; a new
//! slab; and, without memory for a new slab, slabs of other CPUs.

use super::cache::{Misuse, SlqbCache};
use super::list::PartialList;
use super::slab_word::{ListId, SlabState};
use crate::slab::freelist::{self, Freelist};
use quarry_mm::frame::{NodeId, Pfn};
use quarry_sys::percpu::{Lists, Object, SlotIndex};
use quarry_sys::primitive::Ordering;

impl<P: Lists> SlqbCache<'_, P> {
    /// Takes an object from any source. `None` if there is no memory.
    pub(super) fn alloc_slow(&self) -> Option<Object> {
        // SAFETY: cells of this policy are lists, and objects on them are linked.
        if let Some(object) = unsafe { self.context.percpu.list_pop(self.array()) } {
            return Some(object);
        }
        let slot = self.context.percpu.current();
        let own = self.tables.of_slot(slot);
        let object = self
            .take_claimed(slot)
            .or_else(|| self.take_from(own))
            .or_else(|| self.take_from_nodes(slot))
            .or_else(|| self.take_new(slot))
            .or_else(|| self.tables.used_lists().find_map(|list| self.take_from(list)))?;
        self.list(own).alloc_slow.fetch_add(1, Ordering::Relaxed);
        Some(object)
    }

    /// Claims the objects that other CPUs have brought back, and returns the first of them
    /// (`claim_remote_free_list`).
    fn take_claimed(&self, slot: SlotIndex) -> Option<Object> {
        let own = self.of_slot(slot);
        if !own.must_check() {
            return None;
        }
        self.trim_if_due(slot);
        let mut list = own.claim()?.list;
        let object = self.next(&mut list);
        if list.count > self.hiwater() {
            self.flush(slot, list, None);
        } else {
            self.leave(slot, list);
        }
        object
    }

    fn take_from(&self, list: ListId) -> Option<Object> {
        if self.list(list).nr_partial() == 0 {
            return None;
        }
        let mut slabs = self.list(list).partial.lock();
        let first = slabs.first()?;
        let taken = self.take_one(list, &mut slabs, first);
        drop(slabs);
        Some(taken.unwrap_or_else(|misuse| self.report(misuse)))
    }

    /// Takes the first free object of a slab of `list`. A slab whose last free object is taken
    /// leaves the partial list (`__cache_list_get_page`).
    fn take_one(&self, list: ListId, slabs: &mut PartialList, slab: Pfn) -> Result<Object, Misuse> {
        let word = self.word(slab);
        let SlabState { inuse, head, .. } = word.state();
        let head = head.expect("slabs on a partial list have free objects");
        let object = self.object(slab, head);
        // SAFETY: `object` is on its slab's free list, and the caller holds the lock of `list`.
        let link = unsafe { freelist::next(object) };
        let next = link.and_then(|link| self.number_in(slab, link));
        let is_last = inuse + 1 == self.cache.objects();
        if next.is_some() != link.is_some() || link.is_none() != is_last {
            return Err(Misuse::Written(object));
        }
        word.set(SlabState { list, inuse: inuse + 1, head: next });
        if is_last {
            slabs.remove(&self.links(), slab);
        }
        self.list(list).count_partial(slabs, -i32::from(is_last), -1);
        Ok(object)
    }

    /// Takes an object from a node's list, the slot's node first. A node's list has the slabs that
    /// CPUs of other nodes allocated from its memory.
    fn take_from_nodes(&self, slot: SlotIndex) -> Option<Object> {
        let own = self.context.zones.node_of(slot);
        let others = (0..self.tables.nodes() as u8).map(NodeId).filter(|node| *node != own);
        let all = (self.tables.nodes() > 0).then_some(own).into_iter().chain(others);
        all.map(|node| self.tables.of_node(node)).find_map(|list| self.take_from_node(list))
    }

    fn take_from_node(&self, node: ListId) -> Option<Object> {
        let list = self.list(node);
        if list.must_check()
            && let Some(claimed) = list.claim()
        {
            // A node's list has no cell, so its objects go into the slabs.
            self.put_back(node, claimed.list);
        }
        self.take_from(node)
    }

    fn take_new(&self, slot: SlotIndex) -> Option<Object> {
        self.trim_if_due(slot);
        let (slab, to) = self.new_slab(slot)?;
        let list = self.list(to);
        let mut slabs = list.partial.lock();
        slabs.push_front(&self.links(), slab);
        list.count_partial(&slabs, 1, i64::from(self.cache.objects()));
        let taken = self.take_one(to, &mut slabs, slab);
        drop(slabs);
        Some(taken.unwrap_or_else(|misuse| self.report(misuse)))
    }

    /// A new slab, with all objects free and linked, and its list: the list of the slot, or of the
    /// memory's node if that is another node than the slot's.
    fn new_slab(&self, slot: SlotIndex) -> Option<(Pfn, ListId)> {
        let (context, cache) = (self.context, self.cache);
        let node = context.zones.node_of(slot);
        // Linking writes to every page of the slab.
        let slab = self.tables.slabs.new_slab(context, cache, (slot, node), true)?;
        let to = match self.node_of_slab(slab) {
            other if self.tables.nodes() > 0 && other != node => self.tables.of_node(other),
            _ => self.tables.of_slot(slot),
        };
        let objects = (0..cache.objects()).map(|number| self.object(slab, number));
        // SAFETY: the slab is new: all its objects are free, and only this thread has their
        // addresses.
        unsafe { Freelist::linked(objects) };
        self.word(slab).set(SlabState { list: to, inuse: 0, head: Some(0) });
        context.zones.frames().set_kind(slab, cache.order().frames(), cache.id().kind());
        self.list(to).slabs_allocated.fetch_add(1, Ordering::Relaxed);
        Some((slab, to))
    }

    /// Visits the number of every object on the slab's own free list.
    pub(super) fn visit_free(&self, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        self.free_objects(slab).for_each(|(number, _)| visit(number));
    }

    /// The objects on a slab's own free list, up to the first link that leads to no object.
    pub(super) fn free_objects(
        &self,
        slab: Pfn,
    ) -> impl Iterator<Item = (u32, Object)> + use<'_, P> {
        let state = self.word(slab).state();
        let mut next = state.head.map(|head| self.object(slab, head));
        let mut left = self.cache.objects() - state.inuse;
        core::iter::from_fn(move || {
            let object = next.filter(|_| left > 0)?;
            left -= 1;
            // SAFETY: `object` is on the slab's free list, and no other thread uses the cache
            // (callers' promise).
            next = unsafe { freelist::next(object) };
            Some((self.number_in(slab, object)?, object))
        })
    }
}
