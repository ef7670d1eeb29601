//! The policy, which passes the calls of a stack on to the cache that they concern.

use super::below::{Below, Bitmaps};
use super::cache::{SheafCache, View};
use super::capacity;
use super::pool::Pool;
use super::sheaf::Sheaf;
use crate::slab::arrays::{self, through_arrays};
use crate::slab::mechanisms::{Mechanisms, take_options};
use core::mem::MaybeUninit;
use quarry_mm::frame::Pfn;
use quarry_mm::slab::{
    BarnStats, CacheId, CacheIn, CacheParams, Count::BatchedOut, Exchanges, Idle, MAX_CACHES,
    Occupancy, Reclaim, SlabContext, SlabLayout, SlabPolicy, SlabStats,
};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Arrays, Object, Push};
use quarry_sys::primitive::{AtomicBool, Ordering};

/// The kernel's sheaves, of the version that `B` has: Linux 6.18, unless it says otherwise.
pub struct KernelSheaf<B = Bitmaps> {
    caches: [SheafCache; MAX_CACHES],
    pool: Pool,
    below: B,
    /// True if the stack has several nodes. Set when a cache is created.
    has_nodes: AtomicBool,
}

impl<B> KernelSheaf<B> {
    fn of<'a, P: Arrays>(&'a self, cache: CacheIn<'a, P>) -> View<'a, P, B>
    where
        B: Below<P>,
    {
        View {
            context: cache.context,
            cache: cache.cache,
            own: &self.caches[cache.id().index()],
            pool: &self.pool,
            below: &self.below,
        }
    }

    /// Empties `main` and `spare` of the slots and caches that `idle` selects, by one membarrier
    /// for all of them. Returns whether there were any objects.
    fn empty_slots<P: Arrays>(&self, context: &SlabContext<'_, P>, idle: Idle<'_>) -> bool
    where
        B: Below<P>,
    {
        let mut any = arrays::drain(context, idle, |cache, objects| {
            self.of(cache).take_back(objects);
        });
        for cache in context.each_cache() {
            let is_due = |slot| (idle.slots)(slot) || (idle.caches)(cache.id());
            any |= self.of(cache).empty_spares(&is_due);
        }
        any
    }

    fn reclaim_idle<P: Arrays>(&self, context: &SlabContext<'_, P>, idle: Idle<'_>) -> u32
    where
        B: Below<P>,
    {
        let slots = u32::from(self.empty_slots(context, idle));
        let is_due = |cache: &CacheIn<'_, P>| {
            (idle.caches)(cache.id()) && self.of(*cache).stats().has_spare()
        };
        let due = context.each_cache().filter(is_due);
        slots + due.map(|cache| self.of(cache).empty_cache()).count() as u32
    }
}

impl<P: Arrays, B: Below<P>> View<'_, P, B> {
    fn stats(&self) -> SlabStats {
        let (own, capacity) = (self.own, self.capacity() as u64);
        let mut stats = SlabStats::default();
        self.below.add_stats(self.cache_in(), &mut stats);
        let usage = self.context.percpu.usage(self.array());
        stats.parked_objects = usage.level;
        for (_, cpu) in own.used_cpus() {
            stats.parked_objects += cpu.spare.lock().as_ref().map_or(0, Sheaf::len) as u64;
        }
        for (barn, node) in own.barns().iter().zip(&mut stats.barns) {
            let objects = u64::from(barn.full()) * capacity;
            *node = BarnStats { objects, lock: barn.lock_stats() };
            stats.parked_objects += objects;
            stats.barn_lock += node.lock;
        }
        own.counts.fill(usage, Exchanges::default(), &mut stats);
        stats
    }
}

impl<P: Arrays, B: Below<P>> SlabPolicy<P> for KernelSheaf<B> {
    const NAME: &'static str = B::NAME;
    const LINKS_THROUGH_OBJECTS: bool = B::LINKS_THROUGH_OBJECTS;
    const BYTES_PER_FRAME: usize = B::BYTES_PER_FRAME;
    const LOOKS_AT_FREES: bool = true;
    const NEW: Self = Self {
        caches: [const { SheafCache::new() }; MAX_CACHES],
        pool: Pool::new(),
        below: B::NEW,
        has_nodes: AtomicBool::new(false),
    };
    const LARGEST_KMALLOC: usize = capacity::LARGEST_KMALLOC;

    take_options!();
    through_arrays!();

    fn is_parked(&self, cache: CacheIn<'_, P>, object: Object) -> bool {
        let view = self.of(cache);
        arrays::is_on_top(cache.context.percpu, view.array(), object, |objects| {
            view.own.counts.add(BatchedOut, objects.len());
            view.to_slabs(objects);
        })
    }

    fn layout(params: &CacheParams, declared_cpus: u32) -> SlabLayout {
        B::layout(params, declared_cpus)
    }

    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()> {
        let view = self.of(cache);
        self.below.create(cache)?;
        // A node without memory has no barn, and a CPU without a barn does not use its sheaves.
        let has_barn = Mechanisms::of(cache.context.setup.options).local_memory;
        let capacity = if has_barn { B::capacity(cache.stride(), cache.capacity()) } else { 0 };
        view.own.configure(cache, capacity)?;
        self.has_nodes.store(view.looks_at_frees(), Ordering::Relaxed);
        Ok(())
    }

    #[inline(always)]
    fn looks_at_frees(&self) -> bool {
        // The kernel also compares the nodes of slab and CPU before it uses the sheaves.
        self.has_nodes.load(Ordering::Relaxed)
    }

    fn alloc_from_slabs(&self, cache: CacheIn<'_, P>) -> Option<Object> {
        self.of(cache).alloc_slow()
    }

    unsafe fn free_slow(&self, cache: CacheIn<'_, P>, object: Object) {
        self.of(cache).free_slow(object);
    }

    fn alloc_bulk(&self, cache: CacheIn<'_, P>, out: &mut [MaybeUninit<Object>]) -> usize {
        self.of(cache).alloc_bulk(out)
    }

    unsafe fn free_bulk(&self, cache: CacheIn<'_, P>, objects: &[Object]) {
        self.of(cache).free_bulk(objects);
    }

    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32 {
        if let Reclaim::Idle(idle) = what {
            return self.reclaim_idle(context, idle);
        }
        let is_meant = |id| !matches!(what, Reclaim::Cache(only) if only.id() != id);
        let any = self.empty_slots(context, Idle { slots: &|_| false, caches: &is_meant });
        let caches = context.each_cache().filter(|cache| is_meant(cache.id()));
        caches.for_each(|cache| self.of(cache).empty_cache());
        u32::from(any)
    }

    fn occupancy(&self, cache: CacheIn<'_, P>, object: Object) -> Option<Occupancy> {
        self.below.occupancy(cache, object)
    }

    fn stats(&self, cache: CacheIn<'_, P>) -> SlabStats {
        self.of(cache).stats()
    }

    fn visit_free(&self, cache: CacheIn<'_, P>, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        self.below.visit_free(cache, slab, visit);
    }

    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>) {
        self.pool.visit_locks(visit);
        self.below.visit_locks(context, visit);
        for cache in context.each_cache() {
            self.of(cache).own.visit_locks(visit);
        }
    }

    fn validate(&self, context: &SlabContext<'_, P>) -> Result<(), Broken> {
        let mut empty = 0;
        for cache in context.each_cache() {
            empty += self.of(cache).validate()?;
        }
        let check = Check::of("cache limits");
        check.equal(context.limits.empty() as u64, empty as u64, "empty = bytes of empty slabs")
    }
}
