//! The policy, which passes the calls of a stack on to the cache that they concern.

use super::cache::{SlabCache, tuning};
use super::estimate;
use super::slab::Records;
use super::tables::Tables;
use super::tuning::Tuning;
use crate::slab::one_cache::pass_on;
use core::mem::MaybeUninit;
use quarry_mm::frame::{MetadataKind, Pfn};
use quarry_mm::slab::{
    Cache, CacheId, CacheParams, Idle, Late, ParkedObjects, Reclaim, SlabContext, SlabLayout,
    SlabPolicy, SlabStats, written,
};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{ArrayId, Arrays, LOOKED_AT, Object, Push, SlotIndex};
use quarry_sys::primitive::{AtomicBool, Ordering};

/// SLAB of Linux 2.6.3x.
pub struct LinuxSlab {
    tables: Late<Tables>,
    /// True if the stack has several nodes: then a free must check the node of its object.
    has_nodes: AtomicBool,
}

impl LinuxSlab {
    pub(super) fn tables(&self) -> &Tables {
        self.tables.get().expect("a cache has been created")
    }

    fn of<'a, P: Arrays>(
        &'a self,
        context: &'a SlabContext<'a, P>,
        cache: &'a Cache,
    ) -> SlabCache<'a, P> {
        SlabCache { context, cache, tables: self.tables() }
    }

    /// Puts the objects of the arrays that `idle` selects back into their slabs. Returns whether
    /// there were any.
    fn empty_arrays<P: Arrays>(&self, context: &SlabContext<'_, P>, idle: Idle<'_>) -> bool {
        let mut any = false;
        let which = |slot: SlotIndex, array: ArrayId| {
            (idle.slots)(slot) || (idle.caches)(CacheId::new(array.index()))
        };
        context.percpu.drain_where(&which, &mut |array, objects| {
            any = true;
            let cache = context.caches.get(CacheId::new(array.index())).expect("it has objects");
            self.of(context, cache).free_objects(objects);
        });
        any
    }

    fn reclaim_idle<P: Arrays>(&self, context: &SlabContext<'_, P>, idle: Idle<'_>) -> u32 {
        let mut shrunk = u32::from(self.empty_arrays(context, idle));
        for cache in context.caches.iter() {
            let own = self.of(context, cache);
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

impl<P: Arrays> ParkedObjects<P> for LinuxSlab {
    #[inline(always)]
    fn seems_parked(percpu: &P, id: CacheId, object: Object) -> bool {
        percpu.seems_on_top(id.array(), object)
    }

    fn is_parked(&self, context: &SlabContext<'_, P>, cache: &Cache, object: Object) -> bool {
        let mut buffer = [MaybeUninit::uninit(); LOOKED_AT];
        (1..=LOOKED_AT).rev().any(|count| {
            let taken = &mut buffer[..count];
            if !context.percpu.pop_batch(cache.id().array(), taken) {
                return false;
            }
            // SAFETY: pop_batch wrote all elements.
            let taken = unsafe { written(taken, count) };
            let is_here = taken.contains(&object);
            if !context.percpu.push_batch(cache.id().array(), taken) {
                self.of(context, cache).free_objects(taken);
            }
            is_here
        })
    }

    fn activity(&self, context: &SlabContext<'_, P>, cache: &Cache) -> Option<u64> {
        let usage = context.percpu.usage(cache.id().array());
        Some(usage.operations.wrapping_add(usage.level << 48))
    }
}

impl<P: Arrays> SlabPolicy<P> for LinuxSlab {
    const NAME: &'static str = "slab";
    const LOOKS_AT_FREES: bool = true;
    const NEW: Self = Self { tables: Late::new(), has_nodes: AtomicBool::new(false) };
    const BYTES_PER_FRAME: usize = Records::BYTES_PER_FRAME;

    fn layout(params: &CacheParams, _declared_cpus: u32) -> SlabLayout {
        estimate::layout(params)
    }

    fn create(&self, context: &SlabContext<'_, P>, cache: &Cache) -> OsResult<()> {
        let tables = self.tables.build(|| Tables::reserve(context))?;
        let array = cache.id().array();
        context.define_array(cache, Tuning::wanted_limit(cache.stride()))?;
        let tuning = tuning(context, cache);
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

    #[inline(always)]
    fn alloc_fast(percpu: &P, id: CacheId) -> Option<Object> {
        percpu.pop(id.array())
    }

    #[inline(always)]
    unsafe fn free_fast(
        percpu: &P,
        id: CacheId,
        object: Object,
        _slab: impl FnOnce() -> Pfn,
    ) -> Push {
        percpu.push(id.array(), object)
    }

    unsafe fn free_slow(&self, context: &SlabContext<'_, P>, cache: &Cache, object: Object) {
        self.of(context, cache).free_slow(object);
    }

    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32 {
        match what {
            Reclaim::All => {
                let idle = Idle { slots: &|_| true, caches: &|_| true };
                let any = self.empty_arrays(context, idle);
                context.caches.iter().for_each(|cache| self.of(context, cache).empty());
                u32::from(any)
            }
            Reclaim::Cache(cache) => {
                let caches = &|id| id == cache.id();
                let any = self.empty_arrays(context, Idle { slots: &|_| false, caches });
                self.of(context, cache).empty();
                u32::from(any)
            }
            Reclaim::Idle(idle) => self.reclaim_idle(context, idle),
        }
    }

    pass_on!();
}
