//! A cache's part of a node: three lists of slabs and the shared array, under one list lock.
//!
//! Equations, under the lock:
//! * a slab on `partial` has objects in use and free ones, a slab on `full` has no free ones, a
//!   slab on `free` has none in use; every slab of the node is on one of the three lists
//! * `free_objects` = sum over slabs of their free objects
//! * `slabs = slabs allocated - slabs freed` = slabs on lists; `free_slabs` = slabs on `free`
//! * objects in the shared array count as in use in their slabs

use super::shared::SharedArray;
use super::slab::{Slab, Slabs};
use super::tuning::MOST_LIMIT;
use core::mem::MaybeUninit;
use quarry_mm::frame::{FreshZero, Kind, List, Metadata, Pfn};
use quarry_mm::slab::{Cache, Exchanges, SlabContext};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{CountedLock, Guard};
use quarry_sys::locks::Visit;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::AtomicU64;

pub(super) struct Lists {
    partial: List<Pfn>,
    full: List<Pfn>,
    free: List<Pfn>,
    pub(super) free_slabs: u64,
    pub(super) partial_slabs: u64,
    pub(super) free_objects: u64,
    /// If the node has more free objects than this, a slab that becomes free is given back.
    pub(super) free_limit: u64,
    /// True if an allocation has looked for a free slab since the last reap.
    pub(super) is_free_touched: bool,
    pub(super) shared: SharedArray,
    /// Single frees of other nodes' objects count as frees that found their array full.
    pub(super) exchanges: Exchanges,
    pub(super) slabs_allocated: u64,
    pub(super) slabs_freed: u64,
    /// Number of operations that the arrays had counted for an earlier cache of the same number.
    pub(super) operations_before: u64,
    pub(super) is_counted: bool,
}

/// Slabs taken out of use under the lock, to be given back without it.
pub(super) struct Emptied {
    slabs: [MaybeUninit<Pfn>; MOST_LIMIT + 1],
    count: usize,
}

impl Emptied {
    pub(super) const fn new() -> Self {
        Self { slabs: [MaybeUninit::uninit(); MOST_LIMIT + 1], count: 0 }
    }

    fn is_full(&self) -> bool {
        self.count == self.slabs.len()
    }

    fn push(&mut self, slab: Pfn) {
        self.slabs[self.count].write(slab);
        self.count += 1;
    }

    /// Gives the slabs to the page allocator, one by one like the kernel (`kmem_freepages`).
    pub(super) fn give_back<P: PerCpu>(&self, context: &SlabContext<'_, P>, cache: &Cache) {
        for slab in &self.slabs[..self.count] {
            // SAFETY: push wrote the first `count` elements.
            let slab = unsafe { slab.assume_init() };
            context.pages.free(context.percpu.current(), slab, cache.order());
        }
    }
}

impl Lists {
    /// Starts for a new cache: without slabs, and with an empty shared array for `shared` objects.
    pub(super) fn restart(&mut self, free_limit: u64, shared: usize) {
        debug_assert_eq!(self.slabs(), 0);
        self.shared.configure(shared);
        (self.free_limit, self.is_free_touched) = (free_limit, false);
        self.exchanges = Exchanges::default();
        (self.slabs_allocated, self.slabs_freed) = (0, 0);
    }

    pub(super) fn slabs(&self) -> u64 {
        self.slabs_allocated - self.slabs_freed
    }

    pub(super) fn validate(&self, slabs: Slabs<'_>) -> Result<(), Broken> {
        let (check, objects) = (Check::of("node of a cache"), slabs.cache().objects());
        let (mut free_objects, mut on_lists) = (0, 0);
        let mut walk = |list: &List<Pfn>, fits: &dyn Fn(u32) -> bool| {
            let mut count = 0;
            list.validate(&slabs.links(), |pfn| {
                let (slab, check) = (slabs.at(pfn), Check::of("slab").at(pfn.0));
                let is_own = slabs.links().frames.kind(pfn) == slabs.cache().id().kind();
                check.that(is_own, "kind of a slab's frames = its cache's")?;
                slab.validate()?;
                check.that(fits(slab.inuse()), "a slab is on the list of its objects in use")?;
                free_objects += u64::from(objects - slab.inuse());
                count += 1;
                Ok(())
            })?;
            on_lists += count;
            Ok::<u64, Broken>(count)
        };
        let partial = walk(&self.partial, &|inuse| inuse > 0 && inuse < objects)?;
        walk(&self.full, &|inuse| inuse == objects)?;
        let free = walk(&self.free, &|inuse| inuse == 0)?;
        check.equal(self.partial_slabs, partial, "partial_slabs = slabs on the list")?;
        check.equal(self.free_slabs, free, "free_slabs = slabs on the list")?;
        check.equal(self.slabs(), on_lists, "slabs allocated - slabs freed = slabs on lists")?;
        check.equal(self.free_objects, free_objects, "free_objects = sum over slabs")?;
        self.shared.validate()?;
        let is_parked = |object: &Object| !slabs.of(*object).is_free(*object);
        let are_parked = self.shared.objects().iter().all(is_parked);
        check.that(are_parked, "objects in the shared array count as in use in their slabs")
    }
}

/// The lists of a node, held for a change.
pub(super) struct Held<'a> {
    pub(super) lists: Guard<'a, Lists>,
    pub(super) slabs: Slabs<'a>,
    pub(super) metadata: &'a Metadata,
    pub(super) emptied: &'a mut Emptied,
}

impl Held<'_> {
    pub(super) fn add(&mut self, slab: Pfn) {
        let Self { lists, slabs, .. } = self;
        lists.free.push_back(&slabs.links(), slab);
        lists.free_slabs += 1;
        lists.free_objects += u64::from(slabs.cache().objects());
        lists.slabs_allocated += 1;
    }

    /// Fills the front of `out` with objects for a CPU: from the shared array or, if that is empty,
    /// from slabs. Returns the number of objects.
    pub(super) fn refill(&mut self, out: &mut [MaybeUninit<Object>]) -> usize {
        let shared = self.lists.shared.take(out);
        if shared > 0 {
            self.lists.shared.is_touched = true;
            return shared;
        }
        self.take(out)
    }

    /// Fills the front of `out` from slabs, partly free ones first. Returns the number of objects.
    pub(super) fn take(&mut self, out: &mut [MaybeUninit<Object>]) -> usize {
        let (lists, slabs, links) = (&mut *self.lists, self.slabs, self.slabs.links());
        let mut taken = 0;
        while taken < out.len() {
            let first = if let Some(first) = lists.partial.first() {
                lists.partial.remove(&links, first);
                lists.partial_slabs -= 1;
                first
            } else {
                lists.is_free_touched = true;
                let Some(first) = lists.free.first() else { break };
                lists.free.remove(&links, first);
                lists.free_slabs -= 1;
                first
            };
            let slab = slabs.at(first);
            let free = (slabs.cache().objects() - slab.inuse()) as usize;
            let end = out.len().min(taken + free);
            for place in &mut out[taken..end] {
                place.write(slab.take());
            }
            lists.free_objects -= (end - taken) as u64;
            if end - taken == free {
                lists.full.push_front(&links, first);
            } else {
                lists.partial.push_front(&links, first);
                lists.partial_slabs += 1;
            }
            taken = end;
        }
        taken
    }

    /// Gives the last of the objects to the shared array, as far as it has room, and the others to
    /// their slabs (`cache_flusharray`, `__drain_alien_cache`).
    pub(super) fn give(&mut self, objects: &[Object]) {
        let room = self.lists.shared.room(self.metadata).min(objects.len());
        let (rest, newest) = objects.split_at(objects.len() - room);
        self.lists.shared.push(newest);
        self.free_block(rest);
    }

    /// Gives objects to their slabs, at most as many as an array holds. A slab that becomes free is
    /// given back if the node has enough free objects. A slab that stays partly free goes to the
    /// end of its list, which gives its other objects the longest time to be freed.
    pub(super) fn free_block(&mut self, objects: &[Object]) {
        let (slabs, links) = (self.slabs, self.slabs.links());
        for &object in objects {
            let slab = slabs.of(object);
            let inuse = slab.inuse();
            let lists = &mut *self.lists;
            slab.put(object);
            lists.free_objects += 1;
            if inuse > 1 && lists.partial.last() == Some(slab.pfn) {
                continue;
            }
            if inuse == slabs.cache().objects() {
                lists.full.remove(&links, slab.pfn);
            } else {
                lists.partial.remove(&links, slab.pfn);
                lists.partial_slabs -= 1;
            }
            if inuse > 1 {
                lists.partial.push_back(&links, slab.pfn);
                lists.partial_slabs += 1;
            } else if lists.free_objects > lists.free_limit {
                self.let_go(&slab);
            } else {
                lists.free.push_front(&links, slab.pfn);
                lists.free_slabs += 1;
            }
        }
    }

    /// Gives the oldest `count` objects of the shared array to their slabs; at most `MOST_LIMIT`.
    pub(super) fn free_oldest_shared(&mut self, count: usize) {
        let mut piece = [core::ptr::NonNull::dangling(); MOST_LIMIT];
        let count = count.min(MOST_LIMIT);
        piece[..count].copy_from_slice(&self.lists.shared.objects()[..count]);
        self.lists.shared.forget_oldest(count);
        self.free_block(&piece[..count]);
    }

    /// Takes a free slab that is on no list out of use.
    fn let_go(&mut self, slab: &Slab<'_>) {
        let cache = self.slabs.cache();
        self.lists.free_objects -= u64::from(cache.objects());
        self.lists.slabs_freed += 1;
        self.slabs.links().frames.set_kind(slab.pfn, cache.order().frames(), Kind::NONE);
        self.emptied.push(slab.pfn);
    }

    /// Takes up to `most` free slabs out of use, the longest free first, as far as `emptied` has
    /// room. Returns their number.
    pub(super) fn drain_free(&mut self, most: u64) -> u64 {
        let mut drained = 0;
        while drained < most
            && !self.emptied.is_full()
            && let Some(last) = self.lists.free.last()
        {
            self.lists.free.remove(&self.slabs.links(), last);
            self.lists.free_slabs -= 1;
            self.let_go(&self.slabs.at(last));
            drained += 1;
        }
        drained
    }
}

#[repr(C, align(64))]
pub(super) struct Node {
    pub(super) lists: CountedLock<Lists>,
    pub(super) next_reap: AtomicU64,
}

// SAFETY: a free lock around empty lists and counters of 0 are all zero bytes.
unsafe impl FreshZero for Node {}

impl Node {
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("slab->list_lock", &self.lists);
    }
}
