//! *Loose* caches, which no slot keeps objects of: those beyond the arrays of the slots, and those
//! whose creator wishes it.
//!
//! They share one number, whose array is never opened and whose geometry is that of no cache. So
//! every fast path refuses their objects, under every policy. A slow path takes each object from
//! its slab and puts it back there, under the lock of the cache's slabs. Frame 4 of each eight
//! frames of a slab records which loose cache the slab belongs to.
//!
//! Equation: objects in use `= allocs - frees`.

use super::bitmap_slabs::BitmapSlabs;
use super::buffer::written;
use super::cache::{CacheId, SlabLayout};
use super::context::{CacheIn, PolicyOptions, SlabContext};
use super::params::CacheParams;
use super::pieces::Pieces;
use super::policy::SlabPolicy;
use super::reclaim::{Reclaim, SparseWalk};
use super::stats::{Occupancy, SlabStats};
use crate::frame::{FreshZero, Pfn};
use core::mem::MaybeUninit;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, PerCpu, Push};
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Bytes of empty slabs that a loose cache keeps, at least one slab: so a few objects that come and
/// go make no slab each time.
const EMPTY_BYTES: usize = 128 << 10;

struct Loose {
    slabs: BitmapSlabs,
    allocs: AtomicU64,
    frees: AtomicU64,
}

// SAFETY: zero bytes are slabs without a slab, as `SlabPolicy::NEW` requires of a policy's state,
// and counts of 0.
unsafe impl FreshZero for Loose {}

/// A policy, and the loose caches beside it.
pub struct WithLoose<S> {
    policy: S,
    loose: Pieces<Loose>,
}

impl<S> WithLoose<S> {
    fn of(&self, id: CacheId) -> Option<&Loose> {
        self.loose.get(id.place()? as usize)
    }

    fn each<'a, P: PerCpu>(
        &'a self,
        context: &'a SlabContext<'a, P>,
    ) -> impl Iterator<Item = (CacheIn<'a, P>, &'a Loose)> {
        let caches = context.caches.loose().map(|cache| context.with(cache));
        caches.filter_map(|cache| Some((cache, self.of(cache.id())?)))
    }
}

impl Loose {
    fn alloc<P: PerCpu>(&self, cache: CacheIn<'_, P>, out: &mut [MaybeUninit<Object>]) -> usize {
        let (taken, _) = self.slabs.of(cache).alloc(1, out);
        self.allocs.fetch_add(taken as u64, Relaxed);
        taken
    }

    fn free<P: PerCpu>(&self, cache: CacheIn<'_, P>, objects: &[Object]) {
        let keep = (EMPTY_BYTES / cache.order().bytes()).max(1);
        self.slabs.of(cache).free(objects, keep as u32);
        self.frees.fetch_add(objects.len() as u64, Relaxed);
    }
}

impl<P: PerCpu, S: SlabPolicy<P>> SlabPolicy<P> for WithLoose<S> {
    const NAME: &'static str = S::NAME;
    const NEW: Self = Self { policy: S::NEW, loose: Pieces::new() };
    const OPTIONS: &'static str = S::OPTIONS;
    const LINKS_THROUGH_OBJECTS: bool = S::LINKS_THROUGH_OBJECTS;
    const LOOKS_AT_FREES: bool = S::LOOKS_AT_FREES;
    const LARGEST_KMALLOC: usize = S::LARGEST_KMALLOC;
    const BYTES_PER_FRAME: usize = S::BYTES_PER_FRAME;
    const LOOSE_LAYOUT: Option<fn(&CacheParams) -> SlabLayout> = Some(BitmapSlabs::loose_layout);

    fn is_called(name: &str) -> bool {
        S::is_called(name)
    }

    fn set_option(options: &mut PolicyOptions, name: &str, value: &str) -> bool {
        S::set_option(options, name, value)
    }

    fn merges(options: PolicyOptions) -> bool {
        S::merges(options)
    }

    fn layout(params: &CacheParams, declared_cpus: u32) -> SlabLayout {
        S::layout(params, declared_cpus)
    }

    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()> {
        let Some(place) = cache.id().place() else { return self.policy.create(cache) };
        let own = self.loose.make(place as usize, cache.context.metadata)?;
        own.slabs.start();
        own.allocs.store(0, Relaxed);
        own.frees.store(0, Relaxed);
        Ok(())
    }

    #[inline(always)]
    fn looks_at_frees(&self) -> bool {
        self.policy.looks_at_frees()
    }

    #[inline(always)]
    fn alloc_fast(percpu: &P, id: CacheId) -> Option<Object> {
        S::alloc_fast(percpu, id)
    }

    #[inline(always)]
    unsafe fn free_fast(
        percpu: &P,
        id: CacheId,
        object: Object,
        slab: impl FnOnce() -> Pfn,
    ) -> Push {
        // SAFETY: the caller's promise is passed on.
        unsafe { S::free_fast(percpu, id, object, slab) }
    }

    fn alloc_from_slabs(&self, cache: CacheIn<'_, P>) -> Option<Object> {
        let Some(own) = self.of(cache.id()) else { return self.policy.alloc_from_slabs(cache) };
        let mut out = [MaybeUninit::uninit()];
        let taken = own.alloc(cache, &mut out);
        // SAFETY: the slabs wrote the first `taken` elements.
        unsafe { written(&out, taken) }.first().copied()
    }

    unsafe fn free_slow(&self, cache: CacheIn<'_, P>, object: Object) {
        match self.of(cache.id()) {
            Some(own) => own.free(cache, &[object]),
            // SAFETY: the caller's promise is passed on.
            None => unsafe { self.policy.free_slow(cache, object) },
        }
    }

    fn alloc_bulk(&self, cache: CacheIn<'_, P>, out: &mut [MaybeUninit<Object>]) -> usize {
        match self.of(cache.id()) {
            Some(own) => own.alloc(cache, out),
            None => self.policy.alloc_bulk(cache, out),
        }
    }

    unsafe fn free_bulk(&self, cache: CacheIn<'_, P>, objects: &[Object]) {
        match self.of(cache.id()) {
            Some(own) => own.free(cache, objects),
            // SAFETY: the caller's promise is passed on.
            None => unsafe { self.policy.free_bulk(cache, objects) },
        }
    }

    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32 {
        if let Reclaim::Cache(only) = what
            && let Some(own) = self.of(only.id())
        {
            own.slabs.of(context.with(only)).trim(0);
            return 0;
        }
        if !matches!(what, Reclaim::Cache(_)) {
            self.each(context).for_each(|(cache, own)| own.slabs.of(cache).trim(0));
        }
        self.policy.reclaim(context, what)
    }

    fn spare_bytes(&self, context: &SlabContext<'_, P>) -> usize {
        let inside =
            |(cache, own): (CacheIn<'_, P>, &Loose)| own.slabs.inside() as usize * cache.stride();
        self.policy.spare_bytes(context) + self.each(context).map(inside).sum::<usize>()
    }

    fn relieve(&self, context: &SlabContext<'_, P>) {
        self.policy.relieve(context);
    }

    fn purge_sparse(&self, cache: CacheIn<'_, P>, walk: &mut SparseWalk) -> usize {
        self.policy.purge_sparse(cache, walk)
    }

    fn occupancy(&self, cache: CacheIn<'_, P>, object: Object) -> Option<Occupancy> {
        match self.of(cache.id()) {
            Some(own) => own.slabs.of(cache).occupancy(object),
            None => self.policy.occupancy(cache, object),
        }
    }

    fn alloc_dense(&self, cache: CacheIn<'_, P>) -> Option<Object> {
        self.policy.alloc_dense(cache)
    }

    unsafe fn free_dense(&self, cache: CacheIn<'_, P>, object: Object) -> bool {
        // SAFETY: the caller's promise is passed on.
        cache.id().place().is_none() && unsafe { self.policy.free_dense(cache, object) }
    }

    fn stats(&self, cache: CacheIn<'_, P>) -> SlabStats {
        let Some(own) = self.of(cache.id()) else { return self.policy.stats(cache) };
        let mut stats = SlabStats::default();
        own.slabs.of(cache).add_stats(&mut stats);
        stats.alloc_slow = own.allocs.load(Relaxed);
        stats.free_slow = own.frees.load(Relaxed);
        stats
    }

    #[inline(always)]
    fn seems_parked(percpu: &P, id: CacheId, object: Object) -> bool {
        S::seems_parked(percpu, id, object)
    }

    fn is_parked(&self, cache: CacheIn<'_, P>, object: Object) -> bool {
        cache.id().place().is_none() && self.policy.is_parked(cache, object)
    }

    fn activity(&self, cache: CacheIn<'_, P>) -> Option<u64> {
        self.policy.activity(cache)
    }

    fn visit_free(&self, cache: CacheIn<'_, P>, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        match self.of(cache.id()) {
            Some(own) => own.slabs.of(cache).visit_free(slab, visit),
            None => self.policy.visit_free(cache, slab, visit),
        }
    }

    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>) {
        self.policy.visit_locks(context, visit);
        self.each(context).for_each(|(_, own)| own.slabs.visit_locks(visit));
    }

    fn validate(&self, context: &SlabContext<'_, P>) -> Result<(), Broken> {
        let mut empty = 0;
        for (cache, own) in self.each(context) {
            empty += own.slabs.of(cache).validate()?;
            let (check, stats) = (Check::of("loose cache"), self.stats(cache));
            let in_use = stats.alloc_slow - stats.free_slow;
            check.equal(stats.active_objects, in_use, "objects in use = allocs - frees")?;
        }
        let (check, counted) = (Check::of("cache limits"), context.limits.loose() as u64);
        check.equal(counted, empty as u64, "loose = bytes of empty slabs of loose caches")?;
        self.policy.validate(context)
    }
}
