//! The policy, which passes the calls of a stack on to the cache that they concern.

use super::cache::SlqbCache;
use super::sizes;
use super::slab_word::Slabs;
use super::tables::Tables;
use crate::slab::mechanisms::take_options;
use crate::slab::one_cache::{OneCache, pass_on};
use quarry_mm::frame::{MetadataKind, Pfn};
use quarry_mm::slab::{
    CacheId, CacheIn, CacheParams, Late, Reclaim, SlabContext, SlabLayout, SlabPolicy, SlabStats,
};
use quarry_sys::broken::Broken;
use quarry_sys::clock::coarse_ns;
use quarry_sys::locks::Visit;
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::percpu::{Lists, Object, Push};

/// SLQB as of January 2009: a queue of objects per CPU, and remote queues between CPUs.
pub struct Slqb {
    pub(super) tables: Late<Tables>,
}

impl<P: Lists> SlabPolicy<P> for Slqb {
    const NAME: &'static str = "slqb";
    const NEW: Self = Self { tables: Late::new() };
    const LINKS_THROUGH_OBJECTS: bool = true;
    const BYTES_PER_FRAME: usize = Slabs::BYTES_PER_FRAME;

    take_options!();

    fn layout(params: &CacheParams, _declared_cpus: u32) -> SlabLayout {
        SlabLayout { order: sizes::slab_order(params.stride()), header_bytes: 0 }
    }

    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()> {
        if cache.objects() > sizes::MAX_OBJECTS {
            return Err(OsError(libc::EINVAL));
        }
        let tables = self.tables.build(|| Tables::reserve(cache.context))?;
        cache.context.metadata.count(MetadataKind::CpuSlabs, tables.count_lists(cache.id()));
        SlqbCache::of(&self.tables, cache).restart();
        Ok(())
    }

    #[inline(always)]
    fn alloc_fast(percpu: &P, id: CacheId) -> Option<Object> {
        // SAFETY: cells of this policy are lists, and objects on them are linked.
        unsafe { percpu.list_pop(id.array()) }
    }

    #[inline(always)]
    unsafe fn free_fast(
        percpu: &P,
        id: CacheId,
        object: Object,
        _slab: impl FnOnce() -> Pfn,
    ) -> Push {
        // SAFETY: cells of this policy are lists; the caller gives the object up.
        unsafe { percpu.list_push_below(id.array(), object) }
    }

    unsafe fn free_slow(&self, cache: CacheIn<'_, P>, object: Object) {
        let own = OneCache::of(&self.tables, cache);
        own.trim_if_due(cache.context.percpu.current());
        // SAFETY: the caller's promise is passed on.
        unsafe { own.free_slow(object) };
    }

    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32 {
        let shrink = |cache: CacheIn<'_, P>| OneCache::of(&self.tables, cache).shrink();
        match what {
            Reclaim::All => context.each_cache().for_each(shrink),
            Reclaim::Cache(cache) => shrink(context.with(cache)),
            Reclaim::Idle(idle) => {
                let now_ns = coarse_ns();
                let trim = |cache: &CacheIn<'_, P>| {
                    OneCache::of(&self.tables, *cache).trim_all(now_ns, (idle.caches)(cache.id()))
                };
                return context.each_cache().filter(trim).count() as u32;
            }
        }
        0
    }

    pass_on!();
}
