//! The policy, which passes the calls of a stack on to the cache that they concern.

use super::cache::SlabCache;
use super::estimate;
use super::slab::Records;
use super::tables::Tables;
use super::tuning::Tuning;
use crate::slab::arrays::{self, through_arrays};
use crate::slab::mechanisms::take_options;
use crate::slab::one_cache::{OneCache, pass_on};
use quarry_mm::frame::{MetadataKind, Pfn};
use quarry_mm::slab::{
    CacheId, CacheIn, CacheParams, Idle, Late, Reclaim, SlabContext, SlabLayout, SlabPolicy,
    SlabStats,
};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Arrays, Object, Push};
use quarry_sys::primitive::{AtomicBool, Ordering};

/// SLAB of Linux 2.6.3x.
pub struct LinuxSlab {
    pub(super) tables: Late<Tables>,
    /// True if the stack has several nodes: then a free must check the node of its object.
    has_nodes: AtomicBool,
}

impl LinuxSlab {
    /// Puts the objects of the arrays that `idle` selects back into their slabs. Returns whether
    /// there were any.
    fn empty_arrays<P: Arrays>(&self, context: &SlabContext<'_, P>, idle: Idle<'_>) -> bool {
        arrays::drain(context, idle, |cache, objects| {
            OneCache::of(&self.tables, cache).free_objects(objects);
        })
    }

    fn reclaim_idle<P: Arrays>(&self, context: &SlabContext<'_, P>, idle: Idle<'_>) -> u32 {
        let mut shrunk = u32::from(self.empty_arrays(context, idle));
        for cache in context.each_cache() {
            let own = OneCache::of(&self.tables, cache);
            if !(idle.caches)(cache.id()) {
                shrunk += u32::from(own.reap_nodes());
            } else if own.stats().has_spare() {
                own.empty();
                shrunk += 1;
            }
        }
        shrunk
    }
}

impl<P: Arrays> SlabPolicy<P> for LinuxSlab {
    const NAME: &'static str = "slab";
    const LOOKS_AT_FREES: bool = true;
    const NEW: Self = Self { tables: Late::new(), has_nodes: AtomicBool::new(false) };
    const BYTES_PER_FRAME: usize = Records::BYTES_PER_FRAME;

    take_options!();
    through_arrays!();

    fn is_parked(&self, cache: CacheIn<'_, P>, object: Object) -> bool {
        let put_away = |objects: &[Object]| OneCache::of(&self.tables, cache).free_objects(objects);
        arrays::is_on_top(cache.context.percpu, cache.id().array(), object, put_away)
    }

    fn layout(params: &CacheParams, _declared_cpus: u32) -> SlabLayout {
        estimate::layout(params)
    }

    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()> {
        let context = cache.context;
        let tables = self.tables.build(|| Tables::reserve(context))?;
        let array = cache.id().array();
        context.define_array(&cache, Tuning::wanted_limit(cache.stride()))?;
        let tuning = SlabCache::of(&self.tables, cache).tuning();
        let nodes = tables.nodes();
        self.has_nodes.store(nodes > 1, Ordering::Relaxed);
        let cpus = context.setup.declared_cpus.div_ceil(nodes as u32);
        let free_limit = tuning.free_limit(cpus, cache.objects());
        for node in tables.node_ids() {
            let mut lists = tables.node(cache.id(), node).lists.lock();
            lists.restart(free_limit, tuning.shared);
            if node.0 == 0 {
                lists.operations_before = context.percpu.usage(array).operations;
                if !core::mem::replace(&mut lists.is_counted, true) {
                    context.metadata.count(MetadataKind::CpuSlabs, tables.bytes_per_cache());
                }
            }
        }
        tables.aliens(cache.id()).for_each(|(_, aliens)| aliens.restart());
        Ok(())
    }

    #[inline(always)]
    fn looks_at_frees(&self) -> bool {
        self.has_nodes.load(Ordering::Relaxed)
    }

    unsafe fn free_slow(&self, cache: CacheIn<'_, P>, object: Object) {
        OneCache::of(&self.tables, cache).free_slow(object);
    }

    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32 {
        if let Reclaim::Idle(idle) = what {
            return self.reclaim_idle(context, idle);
        }
        let is_meant = |id| !matches!(what, Reclaim::Cache(only) if only.id() != id);
        let any = self.empty_arrays(context, Idle { slots: &|_| false, caches: &is_meant });
        let caches = context.each_cache().filter(|cache| is_meant(cache.id()));
        caches.for_each(|cache| OneCache::of(&self.tables, cache).empty());
        u32::from(any)
    }

    pass_on!();
}
