//! The policy, which passes the calls of a stack on to the cache that they concern.

use super::cache::{SlubCache, guard_of};
use super::era::{Era, V2_6_29, V3_0, V3_1, V4_9};
use super::order;
use super::slow_path::SlowPath;
use super::state::SlabWord;
use super::tables::Tables;
use crate::slab::freelist::{Chain, Freelist};
use crate::slab::mechanisms::{Mechanisms, take_options};
use crate::slab::names::slab_policy;
use crate::slab::one_cache::{OneCache, pass_on};
use crate::slab::records::Records;
use quarry_mm::frame::Pfn;
use quarry_mm::slab::{
    CacheId, CacheIn, CacheParams, Late, PolicyOptions, Reclaim, SlabContext, SlabLayout,
    SlabPolicy, SlabStats,
};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::percpu::{Lists, Object, Push};

/// The policy, for version `E` of the kernel.
pub struct SlubOf<E: Era> {
    tables: Late<Tables<E>>,
}

/// SLUB of Linux 2.6.29 (document 003).
pub type Slub2_6_29 = SlubOf<V2_6_29>;

/// SLUB of Linux 3.0, with which document 002 begins.
pub type Slub3_0 = SlubOf<V3_0>;

/// SLUB of Linux 3.1, with document 002's slow paths without a lock.
pub type Slub3_1 = SlubOf<V3_1>;

/// SLUB of Linux 4.9 (document 000).
pub type Slub4_9 = SlubOf<V4_9>;

impl<P: Lists, E: Era> SlabPolicy<P> for SlubOf<E>
where
    E::Word: SlowPath<P, E>,
{
    const NAME: &'static str = E::NAME;
    const NEW: Self = Self { tables: Late::new() };
    const LARGEST_KMALLOC: usize = E::LARGEST_KMALLOC;
    const LINKS_THROUGH_OBJECTS: bool = true;
    const BYTES_PER_FRAME: usize = Records::<E::Word>::BYTES_PER_FRAME;

    take_options!();

    fn is_called(name: &str) -> bool {
        slab_policy(name).is_some_and(|policy| policy.name == E::NAME)
    }

    fn merges(options: PolicyOptions) -> bool {
        Mechanisms::of(options).merging
    }

    fn layout(params: &CacheParams, declared_cpus: u32) -> SlabLayout {
        let order = order::slab_order(params.stride(), declared_cpus, E::FEWER);
        SlabLayout { order, header_bytes: 0 }
    }

    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()> {
        if cache.objects() > E::Word::MAX_OBJECTS {
            return Err(OsError(libc::EINVAL));
        }
        self.tables.build(|| Tables::reserve(cache.context))?;
        SlubCache::of(&self.tables, cache).take_up();
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
        slab: impl FnOnce() -> Pfn,
    ) -> Push {
        // SAFETY: cells of this policy are lists; the caller gives the object up.
        unsafe { percpu.list_push(id.array(), guard_of(slab()), object) }
    }

    unsafe fn free_slow(&self, cache: CacheIn<'_, P>, object: Object) {
        let own = OneCache::of(&self.tables, cache);
        own.count_free_slow(1);
        // The object is not written before the checks, because it may be in use.
        let list = Freelist { head: Some(object), count: 1 };
        let chain = Chain { list, tail: Some(object) };
        // SAFETY: the caller gives up the object, which lies in its slab.
        unsafe { own.free_chain(own.slab_of(object), &chain) };
    }

    unsafe fn free_bulk(&self, cache: CacheIn<'_, P>, objects: &[Object]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { OneCache::of(&self.tables, cache).free_bulk(objects) };
    }

    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32 {
        let shrink = |cache: CacheIn<'_, P>| OneCache::of(&self.tables, cache).shrink();
        match what {
            Reclaim::All => context.each_cache().for_each(shrink),
            Reclaim::Cache(cache) => shrink(context.with(cache)),
            Reclaim::Idle(idle) => {
                let is_due = |cache: &CacheIn<'_, P>| {
                    (idle.caches)(cache.id())
                        && OneCache::of(&self.tables, *cache).stats().has_spare()
                };
                return context.each_cache().filter(is_due).map(shrink).count() as u32;
            }
        }
        0
    }

    pass_on!();
}
