//! Freeing objects that a full CPU list cannot take, or whose slabs belong to another list.

use super::cache::{Misuse, SlqbCache};
use super::list::PartialList;
use super::slab_word::{ListId, SlabState};
use crate::slab::freelist::{self, Chain, Freelist};
use crate::slab::one_cache::{GUARD, LIST, is_stored};
use crate::slab::records::SlabChain;
use quarry_mm::frame::{Kind, Order, Pfn};
use quarry_mm::slab::MAX_BATCH;
use quarry_sys::percpu::{Lists, Object, Push, SlotIndex};
use quarry_sys::primitive::Ordering;

/// Times that a free starts again after its thread has moved to another CPU.
const TRIES: u32 = 4;

impl<P: Lists> SlqbCache<'_, P> {
    /// Frees an object that the fast path has refused.
    ///
    /// # Safety
    /// The object is an allocated one of this cache, and its user has given it up.
    pub(super) unsafe fn free_slow(&self, object: Object) {
        for _ in 0..TRIES {
            let slot = self.context.percpu.current();
            if self.is_foreign(slot, object) {
                self.count_free(slot);
                // SAFETY: the caller gives the object up.
                return self.free_to_remote(slot, unsafe { Chain::one(object) }.list);
            }
            self.bound(slot);
            if self.push(slot, object) {
                return;
            }
            if self.cell(slot, LIST) & 0xf_ffff >= u64::from(self.hiwater())
                && let Some(list) = self.take_list(slot)
            {
                self.count_free(slot);
                return self.flush(slot, list, Some(object));
            }
        }
        // A drain has stopped the cell, or the thread has moved too often.
        self.count_free(self.context.percpu.current());
        // SAFETY: the caller gives the object up.
        self.put_back(self.list_of(object), unsafe { Chain::one(object) }.list);
    }

    fn count_free(&self, slot: SlotIndex) {
        self.of_slot(slot).free_slow.fetch_add(1, Ordering::Relaxed);
    }

    fn is_foreign(&self, slot: SlotIndex, object: Object) -> bool {
        self.tables.nodes() > 0
            && self.node_of_slab(self.slab_of(object)) != self.context.zones.node_of(slot)
    }

    /// Sets the bound of `slot`'s cell, unless it is set. On a machine with several nodes the bound
    /// is 0: the fast path refuses every object, because it cannot check the node.
    fn bound(&self, slot: SlotIndex) {
        if self.cell(slot, GUARD) == 0 {
            // Marks the slot as used, because its list may hold objects from here on.
            self.tables.of_slot(slot);
            let bound = if self.tables.nodes() > 0 { 0 } else { self.hiwater() };
            self.store(slot, GUARD, 0, (u64::from(slot.0) + 1) << 32 | u64::from(bound));
        }
    }

    fn push(&self, slot: SlotIndex, object: Object) -> bool {
        let push = if self.tables.nodes() > 0 {
            self.push_of_this_node(slot, object)
        } else {
            // SAFETY: cells of this policy are lists; the object is being freed.
            unsafe { self.context.percpu.list_push_below(self.array(), object) }
        };
        is_stored(self.cache, object, push)
    }

    /// Pushes by `compare_store`. Comparing head and length suffices: if the objects after the head
    /// have changed, the push is still right.
    fn push_of_this_node(&self, slot: SlotIndex, object: Object) -> Push {
        let word = self.cell(slot, LIST);
        let list = Freelist::of_word(word);
        if list.head == Some(object) {
            return Push::Duplicate;
        }
        if list.count >= self.hiwater() {
            return Push::Refused;
        }
        // SAFETY: the object is being freed.
        unsafe { freelist::set_next(object, list.head) };
        let longer = Freelist { head: Some(object), count: list.count + 1 };
        if !self.store(slot, LIST, word, longer.word()) {
            return Push::Refused;
        }
        self.of_slot(slot).pushes.fetch_add(1, Ordering::Relaxed);
        Push::Stored
    }

    /// Flushes one batch, `freed` first and then the front of a list that was taken from `slot`;
    /// leaves the remaining list to the slot.
    pub(super) fn flush(&self, slot: SlotIndex, list: Freelist, freed: Option<Object>) {
        self.flush_to(slot, list, freed, Self::leave);
    }

    /// [`flush`](Self::flush), with `leave` for the remaining list (`flush_free_list`).
    pub(super) fn flush_to(
        &self,
        slot: SlotIndex,
        mut list: Freelist,
        freed: Option<Object>,
        leave: fn(&Self, SlotIndex, Freelist),
    ) {
        let own = self.tables.of_slot(slot);
        let (mut ours, mut others) = (Chain::default(), Chain::default());
        let mut sort = |object: Object| {
            let chain = if self.list_of(object) == own { &mut ours } else { &mut others };
            // SAFETY: the object was taken from the caller's list, or is being freed.
            unsafe { chain.push_back(object) };
        };
        let mut left = self.freebatch();
        if let Some(object) = freed {
            sort(object);
            left -= 1;
        }
        while left > 0
            && let Some(object) = self.next(&mut list)
        {
            sort(object);
            left -= 1;
        }
        leave(self, slot, list);
        self.put_back(own, ours.list);
        self.free_to_remote(slot, others.list);
    }

    /// Leaves objects of the caller to `slot`, in its cell. If the cell is not empty or the thread
    /// has moved, the objects join the slot's `remote` objects, which the slot claims next.
    pub(super) fn leave(&self, slot: SlotIndex, list: Freelist) {
        if list.count > 0 && !self.store(slot, LIST, 0, list.word()) {
            self.leave_to_owner(slot, list);
        }
    }

    /// Leaves objects of the caller to the `remote` objects of `slot`. O(objects).
    pub(super) fn leave_to_owner(&self, slot: SlotIndex, list: Freelist) {
        if list.count == 0 {
            return;
        }
        // SAFETY: the caller owns the list.
        unsafe { self.of_slot(slot).bring(self.chain_of(list), self.freebatch(), true) };
    }

    pub(super) fn chain_of(&self, list: Freelist) -> Chain {
        let (mut walk, mut tail) = (list, None);
        while let Some(object) = self.next(&mut walk) {
            tail = Some(object);
        }
        Chain { list, tail }
    }

    /// Gathers objects of the caller for the lists that their slabs belong to
    /// (`slab_free_to_remote`).
    pub(super) fn free_to_remote(&self, slot: SlotIndex, mut objects: Freelist) {
        while let Some((to, gathered)) = self.gather(slot, &mut objects) {
            self.deliver(to, gathered);
        }
    }

    /// Gathers objects until a chain must be delivered: the next object is for another list, or a
    /// batch is complete. Returns the chain.
    fn gather(&self, slot: SlotIndex, objects: &mut Freelist) -> Option<(ListId, Chain)> {
        objects.head?;
        let gathered = self.of_slot(slot).with_outgoing(|outgoing| {
            while let Some(first) = objects.head {
                let to = self.list_of(first);
                if outgoing.to != to && outgoing.objects.count() > 0 {
                    return Ok(Some((outgoing.to, outgoing.objects.take())));
                }
                let object = self.pop(objects)?;
                outgoing.to = to;
                // SAFETY: `object` was just taken from the caller's list.
                unsafe { outgoing.objects.push_back(object) };
                if outgoing.objects.count() >= self.freebatch() {
                    return Ok(Some((to, outgoing.objects.take())));
                }
            }
            Ok(None)
        });
        gathered.unwrap_or_else(|misuse| self.report(misuse))
    }

    /// Brings gathered objects to the list `to`, or into their slabs if many already wait on it
    /// (`flush_remote_free_cache`).
    pub(super) fn deliver(&self, to: ListId, objects: Chain) {
        let list = self.list(to);
        if list.nr_remote() > self.hiwater() / 2 {
            self.put_back(to, objects.list);
        } else {
            // SAFETY: the caller owns the objects, which are of slabs of this list.
            unsafe { list.bring(objects, self.freebatch(), false) };
        }
    }

    /// Puts objects of the caller back into their slabs, which may belong to any lists.
    pub(super) fn put_all_back(&self, mut objects: Freelist) {
        let (mut to, mut alike) = (ListId::default(), Chain::default());
        while let Some(object) = self.next(&mut objects) {
            let list = self.list_of(object);
            if list != to {
                self.put_back(to, alike.take().list);
                to = list;
            }
            // SAFETY: `object` was just taken from the caller's list.
            unsafe { alike.push_back(object) };
        }
        self.put_back(to, alike.list);
    }

    /// Puts objects of the caller back into their slabs, which belong to list `to`. Slabs that this
    /// empties go to the page allocator.
    pub(super) fn put_back(&self, to: ListId, mut objects: Freelist) {
        if objects.count == 0 {
            return;
        }
        let mut empty = SlabChain::default();
        let mut slabs = self.list(to).partial.lock();
        let mut put_all = || {
            while objects.count > 0 {
                let object = self.pop(&mut objects)?;
                if let Some(slab) = self.put(to, &mut slabs, object)? {
                    empty.push(self.links(), slab);
                }
            }
            Ok(())
        };
        let done = put_all();
        drop(slabs);
        if let Err(misuse) = done {
            self.report(misuse);
        }
        self.discard(to, empty);
    }

    /// Puts one object back. Returns its slab if no object of it is in use any more
    /// (`free_object_to_page`).
    fn put(
        &self,
        to: ListId,
        slabs: &mut PartialList,
        object: Object,
    ) -> Result<Option<Pfn>, Misuse> {
        let slab = self.slab_of(object);
        let (word, number) = (self.word(slab), self.number_in(slab, object));
        let SlabState { list, inuse, head } = word.state();
        if list != to || inuse == 0 || number.is_none() || head == number {
            return Err(Misuse::NotInUse(object));
        }
        let (cache_list, all) = (self.list(to), self.cache.objects());
        if inuse == 1 {
            if head.is_some() {
                slabs.remove(&self.links(), slab);
                cache_list.count_partial(slabs, -1, -i64::from(all - 1));
            }
            word.end();
            return Ok(Some(slab));
        }
        // SAFETY: the object is the caller's, and free.
        unsafe { freelist::set_next(object, head.map(|head| self.object(slab, head))) };
        word.set(SlabState { list, inuse: inuse - 1, head: number });
        if head.is_none() {
            slabs.push_front(&self.links(), slab);
        }
        cache_list.count_partial(slabs, i32::from(head.is_none()), 1);
        Ok(None)
    }

    /// Returns slabs that have no object in use and are on no list to the page allocator.
    fn discard(&self, to: ListId, mut chain: SlabChain) {
        let (context, order) = (self.context, self.cache.order());
        let mut pages = [(Pfn::NONE, Order::ZERO); MAX_BATCH];
        loop {
            let mut filled = 0;
            while filled < pages.len()
                && let Some(slab) = chain.pop(self.links())
            {
                context.zones.frames().set_kind(slab, order.frames(), Kind::NONE);
                pages[filled] = (slab, order);
                filled += 1;
            }
            if filled == 0 {
                return;
            }
            self.list(to).slabs_freed.fetch_add(filled as u64, Ordering::Relaxed);
            context.pages.free_list(context.percpu.current(), &pages[..filled]);
        }
    }
}
