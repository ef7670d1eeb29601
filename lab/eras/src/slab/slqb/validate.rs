//! Checks of the equations in `slab_word`, `list` and `freelist`. Slow; for tests.

use super::cache::SlqbCache;
use super::slab_word::ListId;
use crate::slab::freelist::{self, Chain, Freelist};
use crate::slab::one_cache::{GUARD, LIST};
use quarry_mm::frame::Pfn;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::percpu::{Lists, SlotIndex};
use quarry_sys::primitive::Ordering;

#[derive(Clone, Copy, Default)]
struct Census {
    slabs: u64,
    partial: u64,
    free: u64,
    inuse: u64,
}

impl<P: Lists> SlqbCache<'_, P> {
    /// Checks every slab, list and count of the cache. O(lists * frames). No other thread uses the
    /// cache.
    pub(super) fn validate(&self) -> Result<(), Broken> {
        let (mut slabs, mut parked, mut inuse) = (0, 0, 0);
        for id in self.tables.used_lists() {
            let census = self.census(Some(id))?;
            self.validate_list(id, &census)?;
            slabs += census.slabs;
            inuse += census.inuse;
            parked += self.validate_chains(id)?;
            if let Some(slot) = self.tables.slot_of(id) {
                parked += self.validate_cell(slot)?;
            }
        }
        let cache = Check::of("slqb cache");
        cache.equal(slabs, self.census(None)?.slabs, "slabs of all lists = slabs of the cache")?;
        cache.equal(self.parked(), parked, "parked objects = objects on lists")?;
        cache.that(parked <= inuse, "objects on lists <= objects in use")
    }

    fn census(&self, of: Option<ListId>) -> Result<Census, Broken> {
        let mut census = Census::default();
        for slab in self.context.slabs_of(self.cache) {
            let state = self.word(slab).state();
            if of.is_some_and(|list| list != state.list) {
                continue;
            }
            let free = self.validate_slab(slab)?;
            census.slabs += 1;
            census.partial += u64::from(free > 0);
            census.free += free;
            census.inuse += u64::from(state.inuse);
        }
        Ok(census)
    }

    fn validate_slab(&self, slab: Pfn) -> Result<u64, Broken> {
        let state = self.word(slab).state();
        let check = Check::of("slqb slab").at(slab.0);
        check.that(state.inuse > 0, "a slab has an object in use")?;
        check.that(state.inuse <= self.cache.objects(), "inuse <= objects")?;
        let free = self.free_objects(slab).count() as u64;
        let all = u64::from(self.cache.objects());
        check.equal(
            u64::from(state.inuse) + free,
            all,
            "inuse + length of the free list = objects",
        )?;
        let is_full = u64::from(state.inuse) == all;
        check.that(state.head.is_none() == is_full, "head = none <=> inuse = objects")?;
        let last = self.free_objects(slab).last();
        // SAFETY: the object is on the slab's free list, and no other thread uses the cache.
        let ends = last.is_none_or(|(_, object)| unsafe { freelist::next(object) }.is_none());
        check.that(ends, "the link of the last free object = 0")?;
        Ok(free)
    }

    fn validate_list(&self, id: ListId, census: &Census) -> Result<(), Broken> {
        let (list, check) = (self.list(id), Check::of("slqb list").at(id.0));
        let counted = |counter: &quarry_sys::primitive::AtomicU64| counter.load(Ordering::Relaxed);
        let balance = counted(&list.slabs_allocated) - counted(&list.slabs_freed);
        check.equal(balance, census.slabs, "slabs allocated - slabs freed = slabs of a list")?;
        check.equal(list.nr_partial(), census.partial, "nr_partial = slabs with free objects")?;
        check.equal(list.free(), census.free, "free = free objects of a list's slabs")?;
        let slabs = list.partial.lock();
        let mut walked = 0u64;
        slabs.validate_front(&self.links(), |slab| {
            let state = self.word(slab).state();
            let listed = Check::of("slqb partial list").at(slab.0);
            listed.that(state.list == id, "the list of a listed slab = its own")?;
            listed.that(state.head.is_some(), "a listed slab has a free object")?;
            walked += 1;
            Ok(())
        })?;
        check.equal(list.nr_partial(), walked, "nr_partial = slabs on the partial list")
    }

    /// Checks the chain that other CPUs brought to a list, and the chain that its CPU gathers for
    /// another list. Returns the number of objects on both.
    fn validate_chains(&self, id: ListId) -> Result<u64, Broken> {
        let (list, check) = (self.list(id), Check::of("slqb list").at(id.0));
        let mut parked = 0;
        list.check_chains(|chain, gathered_for| {
            let (counted, what) = match gathered_for {
                None => (list.nr_remote(), "nr_remote = objects that were brought"),
                Some(_) => (list.nr_outgoing(), "nr_outgoing = objects that are gathered"),
            };
            check.equal(counted, chain.count(), what)?;
            parked += u64::from(chain.count());
            self.validate_chain(chain, gathered_for)
        })?;
        let is_told = list.nr_remote() < self.freebatch() || list.must_check();
        check.that(is_told, "nr_remote >= freebatch => check")?;
        let gathers = list.nr_outgoing() < self.freebatch();
        check.that(gathers, "gathered objects < freebatch")?;
        Ok(parked)
    }

    fn validate_chain(&self, chain: &Chain, gathered_for: Option<ListId>) -> Result<(), Broken> {
        let check = Check::of("slqb chain");
        let (mut list, mut last) = (chain.list, None);
        while list.count > 0 {
            let Ok(object) = self.pop(&mut list) else {
                return check.that(false, "a chain links as many objects as it counts");
            };
            let is_right = gathered_for.is_none_or(|to| self.list_of(object) == to);
            check.that(is_right, "gathered objects belong to the list that they are for")?;
            last = Some(object);
        }
        check.that(list.head.is_none() && chain.tail == last, "tail = the last object")
    }

    fn validate_cell(&self, slot: SlotIndex) -> Result<u64, Broken> {
        let (guard, check) = (self.cell(slot, GUARD), Check::of("slqb CPU").at(slot.0));
        let mut list = Freelist::of_word(self.cell(slot, LIST));
        let count = list.count;
        let names_slot = guard == 0 || guard >> 32 == u64::from(slot.0) + 1;
        check.that(names_slot, "the guard of a cell names its slot")?;
        check.that(count <= self.hiwater(), "objects on a CPU's list <= hiwater")?;
        while list.count > 0 {
            if self.pop(&mut list).is_err() {
                return check.that(false, "a cell links as many objects as it counts").map(|()| 0);
            }
        }
        check.that(list.head.is_none(), "a cell links no more objects than it counts")?;
        Ok(u64::from(count))
    }
}
