//! Checks of the equations in `page_word`, `node`, `cpu` and the module. Slow; for tests.

use super::cache::SlubCache;
use super::era::Era;
use super::node::PartialList;
use super::state::SlabWord;
use crate::slab::freelist::{self, Freelist};
use crate::slab::one_cache::LIST;
use quarry_mm::frame::Pfn;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::percpu::Lists;
use quarry_sys::primitive::Ordering;

#[derive(Default)]
struct Census {
    slabs: u64,
    frozen: u64,
    partial: u64,
    inuse: u64,
}

impl<P: Lists, E: Era> SlubCache<'_, P, E> {
    /// Checks every slab, list and count of the cache. O(frames). No other thread uses the cache.
    pub(super) fn validate(&self) -> Result<(), Broken> {
        let census = self.census()?;
        let allocated: u64 =
            self.nodes().map(|node| node.slabs_allocated.load(Ordering::Relaxed)).sum();
        let freed: u64 = self.nodes().map(|node| node.slabs_freed.load(Ordering::Relaxed)).sum();
        let cache = Check::of("slub cache");
        cache.equal(census.slabs, allocated - freed, "slabs = slabs allocated - slabs freed")?;
        let mut on_nodes = 0;
        for node in self.nodes() {
            let list = node.list.lock();
            let walked = self.walk_node(&list)?;
            cache.equal(node.nr_partial(), walked, "nr_partial of a node = slabs on its list")?;
            on_nodes += walked;
        }
        let partial = "slabs on node lists = slabs with free objects that are not frozen";
        cache.equal(on_nodes, census.partial, partial)?;
        let (mut owned, mut parked) = (0u64, 0);
        for slot in self.tables.used_slots() {
            let mut misplaced = false;
            let mut walked = 0u64;
            self.for_each_frozen(slot, |slab| {
                let state = self.state(slab);
                misplaced |= !state.frozen || !self.is_own(slab);
                walked += 1;
            });
            let slot_check = cache.at(slot.0);
            slot_check.that(!misplaced, "slabs that a CPU holds are frozen and the cache's")?;
            let (_, slab) = self.guard(slot);
            let counted = u64::from(self.cpu(slot).slabs()) + u64::from(slab.is_some());
            slot_check.equal(
                counted,
                walked,
                "count of a CPU's partial slabs = slabs on its list",
            )?;
            owned += walked;
            if E::CPU_SLAB {
                parked += self.walk_cell(self.cell(slot, LIST))?;
            }
        }
        cache.equal(census.frozen, owned, "frozen slabs = slabs that CPUs hold")?;
        cache.that(parked <= census.inuse, "objects on CPUs' lists <= objects in use")
    }

    fn census(&self) -> Result<Census, Broken> {
        let mut census = Census::default();
        for slab in self.context.slabs_of(self.cache) {
            self.count_slab(slab, &mut census)?;
        }
        Ok(census)
    }

    /// Visits the number of every object on the slab's own free list.
    pub(super) fn visit_free(&self, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        let free = self.state(slab);
        let head = free.head.map(|number| self.object(slab, number));
        for object in self.walk(Freelist { head, count: free.free() }) {
            visit(self.number(slab, object));
        }
    }

    fn count_slab(&self, slab: Pfn, census: &mut Census) -> Result<(), Broken> {
        let state = self.state(slab);
        let check = Check::of("slub slab").at(slab.0);
        let is_own = self.word(slab).agrees(self.tag()) && state.objects == self.cache.objects();
        check.that(is_own, "cache and objects of a slab's word = its cache's")?;
        let mut seen = 0;
        let mut next = state.head.map(|number| self.object(slab, number));
        while let Some(object) = next {
            check.that(
                self.number_in(slab, object).is_some(),
                "a slab's free list stays in the slab",
            )?;
            seen += 1;
            check.that(seen <= state.free(), "inuse + length of the free list <= objects")?;
            // SAFETY: `object` is on the slab's free list, and no other thread uses the cache.
            next = unsafe { freelist::next(object) };
        }
        check.equal(seen, state.free(), "length of the free list = objects - inuse")?;
        census.slabs += 1;
        census.inuse += u64::from(state.inuse);
        census.frozen += u64::from(state.frozen);
        census.partial += u64::from(state.is_listed());
        Ok(())
    }

    /// Returns whether the frame table and the slab's word both name this cache.
    fn is_own(&self, slab: Pfn) -> bool {
        let kind = self.context.zones.frames().kind(slab);
        kind == self.cache.id().kind() && self.word(slab).agrees(self.tag())
    }

    fn walk_node(&self, list: &PartialList) -> Result<u64, Broken> {
        let mut walked = 0;
        list.validate(&self.links(), |slab| {
            let (state, listed) = (self.state(slab), Check::of("slub node").at(slab.0));
            listed
                .that(state.is_listed(), "a slab on a node's list is not frozen, and not full")?;
            listed.that(self.is_own(slab), "cache of a slab on a node's list = its own")?;
            walked += 1;
            Ok(())
        })?;
        Ok(walked)
    }

    fn walk_cell(&self, word: u64) -> Result<u64, Broken> {
        let list = Freelist::of_word(word);
        let count = u64::from(list.count);
        let (mut walked, check) = (0, Check::of("slub CPU"));
        for object in self.walk(list) {
            let slab = self.slab_of(object);
            let is_own = self.is_own(slab) && self.number_in(slab, object).is_some();
            check.that(is_own, "a CPU's list holds objects of the cache")?;
            walked += 1;
            check.that(walked <= count, "length of a CPU's list <= its count")?;
        }
        check.equal(walked, count, "length of a CPU's list = its count")?;
        Ok(count)
    }
}
