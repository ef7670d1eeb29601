//! Checks of the equations in `page_word`, `node`, `cpu` and the module. Slow; for tests.

use super::cache::{LIST, SlubCache};
use super::era::Era;
use super::freelist::{self, Freelist};
use crate::frame::{PAGEBLOCK_FRAMES, PageblockIndex, Pfn};
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::Ordering;

/// The findings of a walk over all slabs.
#[derive(Default)]
struct Census {
    slabs: u64,
    frozen: u64,
    partial: u64,
    inuse: u64,
}

impl<P: PerCpu, E: Era> SlubCache<'_, P, E> {
    /// Checks every slab, list and count of the cache. O(frames). No other thread is at work.
    pub(super) fn validate(&self) -> Result<(), &'static str> {
        let census = self.census()?;
        let allocated: u64 =
            self.nodes().map(|node| node.slabs_allocated.load(Ordering::Relaxed)).sum();
        let freed: u64 = self.nodes().map(|node| node.slabs_freed.load(Ordering::Relaxed)).sum();
        if census.slabs != allocated - freed {
            return Err("slabs found != slabs allocated - slabs freed");
        }
        let mut on_nodes = 0;
        for node in self.nodes() {
            let list = node.list.lock();
            let walked = self.walk_node(list.first())?;
            if walked != u64::from(node.nr_partial()) {
                return Err("a node's nr_partial != slabs on its list");
            }
            on_nodes += walked;
        }
        if on_nodes != census.partial {
            return Err("slabs on node lists != slabs with free objects that are not frozen");
        }
        let (mut owned, mut parked) = (0, 0);
        for slot in self.tables.used_slots() {
            let mut misplaced = false;
            let mut walked = 0;
            self.for_each_frozen(slot, |slab| {
                let state = self.word(slab).state();
                misplaced |= !state.is_frozen() || state.cache() != self.tag();
                walked += 1;
            });
            if misplaced {
                return Err("a CPU holds a slab that is not frozen or not the cache's");
            }
            let (_, slab) = self.guard(slot);
            if walked != u64::from(self.cpu(slot).slabs()) + u64::from(slab.is_some()) {
                return Err("a CPU's count of partial slabs != slabs on its list");
            }
            owned += walked;
            parked += self.walk_cell(self.cell(slot, LIST))?;
        }
        if owned != census.frozen {
            return Err("frozen slabs != slabs that CPUs hold");
        }
        if parked > census.inuse {
            return Err("objects on CPUs' lists > objects in use");
        }
        Ok(())
    }

    /// Looks at every frame that may start a slab of the cache.
    fn census(&self) -> Result<Census, &'static str> {
        let mut census = Census::default();
        let memory = self.context.pages.zones().memory();
        let frames = self.cache.order().frames() as usize;
        for index in (0..memory.pageblocks().count()).map(PageblockIndex) {
            let in_zone = memory.pageblocks().at(index).tag().node().is_some();
            let heads = (0..if in_zone { PAGEBLOCK_FRAMES } else { 0 }).step_by(frames);
            for slab in heads.map(|offset| index.first().plus(offset)) {
                let is_head = slab.is_aligned(self.cache.order());
                if is_head && memory.frames().kind(slab) == self.cache.id().kind() {
                    self.count_slab(slab, &mut census)?;
                }
            }
        }
        Ok(census)
    }

    fn count_slab(&self, slab: Pfn, census: &mut Census) -> Result<(), &'static str> {
        let state = self.word(slab).state();
        if state.cache() != self.tag() || state.objects() != self.cache.objects() {
            return Err("a slab's word is not of its cache");
        }
        let mut seen = 0;
        let mut next = state.head().map(|number| self.object(slab, number));
        while let Some(object) = next {
            if !self.is_object_of(slab, object) {
                return Err("a slab's free list leads out of the slab");
            }
            seen += 1;
            if seen > state.free() {
                return Err("inuse + length of the free list > objects");
            }
            // SAFETY: on the slab's free list, so linked, and no other thread is at work.
            next = unsafe { freelist::next(object) };
        }
        if seen != state.free() {
            return Err("inuse + length of the free list < objects");
        }
        census.slabs += 1;
        census.inuse += u64::from(state.inuse());
        census.frozen += u64::from(state.is_frozen());
        census.partial += u64::from(!state.is_frozen() && state.head().is_some());
        Ok(())
    }

    fn is_object_of(&self, slab: Pfn, object: Object) -> bool {
        let address = self.context.pages.arena().address(slab).as_ptr() as usize;
        let offset = (object.as_ptr() as usize).wrapping_sub(address);
        offset < self.cache.order().bytes() && self.cache.object_number(offset).is_some()
    }

    fn walk_node(&self, first: Option<Pfn>) -> Result<u64, &'static str> {
        let links = self.links();
        let (mut walked, mut previous, mut next) = (0, None, first);
        while let Some(slab) = next {
            let state = self.word(slab).state();
            if state.is_frozen() || state.head().is_none() || state.cache() != self.tag() {
                return Err("a slab on a node's list is frozen, full or of another cache");
            }
            if links.previous(slab) != previous {
                return Err("a slab's previous link is wrong");
            }
            walked += 1;
            previous = Some(slab);
            next = links.next(slab);
        }
        Ok(walked)
    }

    /// Objects on a cell's list.
    fn walk_cell(&self, word: u64) -> Result<u64, &'static str> {
        let count = word & 0xf_ffff;
        let head = Object::new(((word >> 20) << 4) as *mut u8);
        let list = Freelist { head, count: count as u32 };
        let mut walked = 0;
        for object in self.walk(list) {
            let slab = self.slab_of(object);
            if self.word(slab).state().cache() != self.tag() || !self.is_object_of(slab, object) {
                return Err("a CPU's list holds something else than objects of the cache");
            }
            walked += 1;
            if walked > count {
                return Err("a CPU's list is longer than its count");
            }
        }
        if walked == count { Ok(count) } else { Err("a CPU's list is shorter than its count") }
    }
}
