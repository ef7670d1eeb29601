//! The parts of a stack that slab policies use.

use super::cache::{Cache, LOOSE, cache_of};
use super::cache_limits::CacheLimits;
use super::table::CacheTable;
use crate::frame::{FRAME_SHIFT, List, Metadata, NodeId, Order, PageblockIndex, Pfn};
use crate::pcp::{AllocFlags, Page, PageAllocator, PagePolicy, PageRequest};
use crate::zone::Zones;
use core::cell::Cell;
use core::ops::Deref;
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::own_stack;
use quarry_sys::percpu::{Object, PerCpu, SlotIndex};

/// Maximum number of objects that one step of a slow path moves.
pub const MAX_BATCH: usize = 64;
/// Objects in a buffer on a thread's stack. That stack may be small: larger batches move in pieces.
pub(super) const PIECE: usize = 48;
const GIVEN_BACK: usize = 8;

/// The options of a slab policy, in bits that the policy alone knows. With 0 it runs as it is meant
/// to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyOptions(pub u32);

/// The setup of a stack's slab policy.
#[derive(Clone, Copy, Debug)]
pub struct SlabSetup {
    /// Number of CPUs that the kernel's formulas assume.
    pub declared_cpus: u32,
    /// The policy's own options.
    pub options: PolicyOptions,
}

/// The source of slabs: the page allocator, with any policy for its pcp lists. Slab policies call
/// it through a trait object, and so are compiled once for all page policies.
pub trait SlabPages {
    /// See [`PageAllocator::alloc`].
    fn alloc(&self, slot: SlotIndex, request: PageRequest) -> Option<Page>;

    /// See [`PageAllocator::free`].
    fn free(&self, slot: SlotIndex, pfn: Pfn, order: Order);

    /// See [`PageAllocator::free_list`].
    fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]);
}

impl<P: PagePolicy> SlabPages for PageAllocator<P> {
    fn alloc(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        self.alloc(slot, request)
    }

    fn free(&self, slot: SlotIndex, pfn: Pfn, order: Order) {
        self.free(slot, pfn, order);
    }

    fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]) {
        self.free_list(slot, pages);
    }
}

/// The parts of a stack that a slab policy uses.
pub struct SlabContext<'a, P: PerCpu> {
    /// The per-CPU slots.
    pub percpu: &'a P,
    /// The zones, and the frames that slabs are made of.
    pub zones: &'a Zones,
    /// The source of slabs.
    pub pages: &'a dyn SlabPages,
    /// The source of descriptors.
    pub metadata: &'a Metadata,
    /// All caches of the stack.
    pub caches: &'a CacheTable,
    /// Bytes that caches hold beyond objects in use, and their bounds.
    pub limits: &'a CacheLimits,
    /// The policy's setup.
    pub setup: &'a SlabSetup,
    /// Slabs on their way to the page allocator.
    pub emptied: Emptied,
}

/// One cache of a stack, with the parts that operations on it use. It dereferences to the
/// [`Cache`].
pub struct CacheIn<'a, P: PerCpu> {
    /// The parts of the stack.
    pub context: &'a SlabContext<'a, P>,
    /// The cache.
    pub cache: &'a Cache,
}

impl<P: PerCpu> Clone for CacheIn<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: PerCpu> Copy for CacheIn<'_, P> {}

impl<P: PerCpu> Deref for CacheIn<'_, P> {
    type Target = Cache;

    #[inline(always)]
    fn deref(&self) -> &Cache {
        self.cache
    }
}

/// Slabs that have become empty and left their cache. The page allocator gets them later, from code
/// that has more of the thread's stack left than the code that empties slabs.
#[derive(Default)]
pub struct Emptied(Cell<(List<Pfn>, Order)>);

impl<P: PerCpu> Drop for SlabContext<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.give_back_emptied();
    }
}

#[cold]
#[inline(never)]
fn give_back<P: PerCpu>(context: &SlabContext<'_, P>, slabs: &List<Pfn>, order: Order) {
    let mut slabs = slabs.members(context.zones.frames());
    loop {
        let (mut some, mut count) = ([(Pfn::NONE, order); GIVEN_BACK], 0);
        for (place, slab) in some.iter_mut().zip(&mut slabs) {
            place.0 = slab;
            count += 1;
        }
        if count == 0 {
            return;
        }
        let some = some.get(..count).unwrap_or_default();
        context.pages.free_list(context.percpu.current(), some);
    }
}

impl<'a, P: PerCpu> SlabContext<'a, P> {
    /// These parts with one of the stack's caches.
    #[inline(always)]
    pub fn with(&'a self, cache: &'a Cache) -> CacheIn<'a, P> {
        CacheIn { context: self, cache }
    }

    /// All caches but the loose ones, by number.
    pub fn each_cache(&'a self) -> impl Iterator<Item = CacheIn<'a, P>> + Clone {
        self.caches.iter().map(|cache| self.with(cache))
    }

    /// All caches, in turn: each call begins with the cache after the last call's first.
    pub fn caches_in_turn(&'a self) -> impl Iterator<Item = CacheIn<'a, P>> {
        let caches = self.caches.iter().count();
        let first = self.limits.next_turn() % caches.max(1);
        self.each_cache().cycle().skip(first).take(caches)
    }

    /// Takes a block for a slab of `cache`, from `node` if that node has one. `None` if there is no
    /// memory.
    #[must_use]
    pub fn take_block(&self, slot: SlotIndex, node: NodeId, cache: &Cache) -> Option<Page> {
        let migratetype = self.zones.slab_type(node, cache.id().kind());
        let flags = AllocFlags::default();
        self.pages.alloc(slot, PageRequest { order: cache.order(), migratetype, flags, node })
    }

    pub(super) fn add_emptied(&self, mut slabs: List<Pfn>, order: Order) {
        if slabs.is_empty() {
            return;
        }
        let (before, order_before) = self.emptied.0.take();
        if order_before == order {
            slabs.prepend(self.zones.frames(), before);
        } else if !before.is_empty() {
            own_stack::run(|| give_back(self, &before, order_before));
        }
        self.emptied.0.set((slabs, order));
    }

    /// Gives the slabs that have become empty so far to the page allocator.
    #[inline]
    pub fn give_back_emptied(&self) {
        let (slabs, order) = self.emptied.0.take();
        if !slabs.is_empty() {
            give_back(self, &slabs, order);
        }
    }

    /// The first frame of the slab of an object of `cache`. O(1).
    #[must_use]
    pub fn slab_of(&self, cache: &Cache, object: Object) -> Pfn {
        let base = self.zones.arena().base().as_ptr() as usize;
        let offset = object.as_ptr() as usize - base;
        Pfn((offset >> FRAME_SHIFT) as u32).align_down(cache.order())
    }

    /// Gives the array of a new cache room for `wanted` objects in every slot, or for fewer, to
    /// leave room for later caches. If earlier caches had the same number, the first one's room is
    /// the upper bound.
    ///
    /// # Errors
    /// `EBUSY` if the array of a slot still has room from the earlier cache.
    pub fn define_array(&self, cache: &Cache, wanted: usize) -> OsResult<()> {
        let (area, array) = (self.percpu.area(), cache.id().array());
        let others = LOOSE - 1 - self.caches.count().max(cache.id().index());
        match area.define(array, wanted.min(area.fair_capacity(others))) {
            Err(OsError(libc::EEXIST)) => area.define_again(array, wanted)?,
            defined => defined?,
        }
        area.weigh(array, cache.stride());
        Ok(())
    }

    /// The first frames of a cache's slabs, for checks and reports. Exact only while no other
    /// thread allocates or frees. O(frames).
    pub fn slabs_of<'c>(&'c self, cache: &'c Cache) -> impl Iterator<Item = Pfn> + 'c {
        let memory = self.zones.memory();
        let frames = cache.order().frames();
        // If a slab is several pageblocks, only the first of them is aligned to the slab's order.
        (0..memory.pageblocks().count())
            .map(PageblockIndex)
            .filter(move |index| memory.pageblocks().at(*index).tag().node().is_some())
            .flat_map(move |index| index.frames().step_by(frames as usize))
            .filter(move |slab| {
                let is_head = slab.is_aligned(cache.order());
                is_head && cache_of(memory.frames(), *slab) == Some(cache.id())
            })
    }
}
