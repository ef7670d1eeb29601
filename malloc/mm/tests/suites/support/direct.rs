//! The smallest slab policy: each request takes an object from a slab, and each free returns it
//! there, under the one lock of the cache's slabs.

use quarry_mm::frame::Pfn;
use quarry_mm::slab::{
    BitmapSlabs, Cache, CacheId, CacheIn, CacheParams, MAX_CACHES, Reclaim, SlabContext,
    SlabLayout, SlabPolicy, SlabStats,
};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, PerCpu, Push};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

thread_local! {
    /// How often this thread has tried to free on the fast path.
    pub(crate) static PUSHES: Cell<u64> = const { Cell::new(0) };
}

/// The state of one cache.
struct DirectCache {
    slabs: BitmapSlabs,
    allocs: AtomicU64,
    frees: AtomicU64,
}

impl DirectCache {
    const fn new() -> Self {
        let (allocs, frees) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { slabs: BitmapSlabs::new(), allocs, frees }
    }
}

/// The policy.
pub(crate) struct Direct([DirectCache; MAX_CACHES]);

impl Direct {
    fn of(&self, cache: &Cache) -> &DirectCache {
        &self.0[cache.id().index()]
    }

    fn trim<P: PerCpu>(&self, cache: CacheIn<'_, P>) {
        self.of(&cache).slabs.of(cache).trim(0);
    }
}

impl<P: PerCpu> SlabPolicy<P> for Direct {
    const NAME: &'static str = "direct";
    const NEW: Self = Self([const { DirectCache::new() }; MAX_CACHES]);

    fn layout(params: &CacheParams, _declared_cpus: u32) -> SlabLayout {
        BitmapSlabs::layout(params)
    }

    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()> {
        let own = self.of(&cache);
        own.allocs.store(0, Relaxed);
        own.frees.store(0, Relaxed);
        own.slabs.start();
        Ok(())
    }

    fn alloc_fast(_percpu: &P, _id: CacheId) -> Option<Object> {
        None
    }

    unsafe fn free_fast(_: &P, _: CacheId, _: Object, _: impl FnOnce() -> Pfn) -> Push {
        PUSHES.set(PUSHES.get() + 1);
        Push::Refused
    }

    fn alloc_from_slabs(&self, cache: CacheIn<'_, P>) -> Option<Object> {
        let own = self.of(&cache);
        let mut out = [MaybeUninit::uninit()];
        let (taken, _) = own.slabs.of(cache).alloc(1, &mut out);
        own.allocs.fetch_add(taken as u64, Relaxed);
        // SAFETY: the slabs wrote the first `taken` elements.
        (taken == 1).then(|| unsafe { out[0].assume_init() })
    }

    unsafe fn free_slow(&self, cache: CacheIn<'_, P>, object: Object) {
        let own = self.of(&cache);
        own.slabs.of(cache).free(&[object], 0);
        own.frees.fetch_add(1, Relaxed);
    }

    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32 {
        match what {
            Reclaim::All => {
                let mut zones = context.zones.all();
                assert!(zones.all(|zone| zone.is_reclaim_active()), "page lists keep less now");
                context.each_cache().for_each(|cache| self.trim(cache));
            }
            Reclaim::Cache(cache) => self.trim(context.with(cache)),
            // Nothing is idle: a slab that becomes empty goes back at once.
            Reclaim::Idle(_) => {}
        }
        0
    }

    fn stats(&self, cache: CacheIn<'_, P>) -> SlabStats {
        let own = self.of(&cache);
        let mut stats = SlabStats::default();
        own.slabs.of(cache).add_stats(&mut stats);
        stats.alloc_slow = own.allocs.load(Relaxed);
        stats.free_slow = own.frees.load(Relaxed);
        stats
    }

    fn visit_free(&self, cache: CacheIn<'_, P>, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        self.of(&cache).slabs.of(cache).visit_free(slab, visit);
    }

    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>) {
        context.each_cache().for_each(|cache| self.of(&cache).slabs.visit_locks(visit));
    }

    fn validate(&self, context: &SlabContext<'_, P>) -> Result<(), Broken> {
        let slabs = |cache: CacheIn<'_, P>| self.of(&cache).slabs.of(cache).validate().map(drop);
        context.each_cache().try_for_each(slabs)
    }
}
