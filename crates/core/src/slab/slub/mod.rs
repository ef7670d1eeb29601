//! `slub`: per-CPU slabs and free lists through the objects themselves (Linux 2.6.22 to 6.17).
//!
//! A CPU owns one slab per cache and has taken its free objects as a list: allocation takes the
//! head, freeing an object *of that slab* puts it back, both one restartable sequence. An object of
//! any other slab is put onto that slab's own free list by a compare-and-swap of its packed word
//! (see `page_word`), without a lock unless the slab becomes empty. No array stands in front: how
//! often frees hit the CPU's own slab is what the policy is measured by.
//!
//! # The CPU's slab
//! The slot's cell holds three facts in two words, and every step changes one of them by one
//! committing store, after which the thread may find itself on another CPU:
//!
//! | guard | list | meaning |
//! |---|---|---|
//! | 0 | empty | no slab |
//! | s + 1 | any | slab `s` is frozen and belongs to this cell |
//! | 0 | objects | left by a slab that was let go, or by a store that came late; used up first |
//! | all ones | any | a drain has stopped the cell |
//!
//! | step | store | and then the thread |
//! |---|---|---|
//! | take an object | list: head -> next | has an object |
//! | put an object of `s` | list: head -> object, if guard = s + 1 | has nothing |
//! | install | guard: 0 -> s + 1 | no longer owns `s`; still has the objects it took from `s` |
//! | fill | list: 0 -> objects | has nothing |
//! | let go | guard: s + 1 -> 0 | owns `s`, frozen |
//! | drain | guard: -> all ones -> 0, list: -> 0 | owns `s` and the list |
//!
//! The guard alone says who owns `s`: whoever stores it away owns `s`, whatever happened since it
//! was read. Objects of a list count as in use in their own slabs and may be of another slab than
//! the guard's (a *fill* that came late), so a list is never trusted to be of one slab: who takes
//! it whole sorts it. A store that fails changes nothing, and then the thread gives what it has to
//! the objects' own slab, which is always possible.
//!
//! # Where a slab is
//! ```text
//! new -> [cell] -> full, on no list -> [CPU's partial list] -> node's list -> given back
//!           ^          (its first free freezes it)  |              |
//!           +---------------------------------------+--------------+
//! ```
//! In brackets: frozen. Every slab is in one of these places, or in the hands of one thread.
//!
//! Differences to the kernel: no fallback to a smaller order where memory is short (a cache's
//! geometry is fixed), no preference for the list's head or tail when a slab is let go, and, in
//! `LockedSlub`, the node's list lock where Linux 3.0 had a lock bit per slab.

mod alloc;
mod cache;
mod cpu;
mod free;
mod freelist;
mod node;
mod order;
mod page_word;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod validate;

use self::cache::{SlubCache, guard_of};
use self::tables::LateTables;
use super::{Cache, CacheId, CacheParams, SlabContext, SlabPolicy, SlabStats};
use crate::frame::{MetadataKind, Order, Pfn};
use core::mem::MaybeUninit;
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::percpu::{Lists, Object, Push};
use quarry_sys::primitive::{AtomicU32, Ordering};

/// The policy; see the module. `LOCKLESS` is the slow path of Linux 3.1 (document 002); without it
/// every free beyond the CPU's own slab, and every look into a slab for what others have freed,
/// takes the node's list lock.
pub struct Slub<const LOCKLESS: bool = true> {
    tables: LateTables,
    /// Highest number of a cache that has been created.
    last: AtomicU32,
}

/// [`Slub`] with the slow path from before Linux 3.1: every slow free takes the list lock.
pub type LockedSlub = Slub<false>;

impl<const LOCKLESS: bool> Slub<LOCKLESS> {
    fn of<'a, P: Lists>(
        &'a self,
        context: &'a SlabContext<'a, P>,
        cache: &'a Cache,
    ) -> SlubCache<'a, P, LOCKLESS> {
        let tables = self.tables.get().expect("a cache has been created");
        SlubCache { context, cache, tables }
    }
}

impl<P: Lists, const LOCKLESS: bool> SlabPolicy<P> for Slub<LOCKLESS> {
    const NAME: &'static str = if LOCKLESS { "slub" } else { "slub-locked" };
    const NEW: Self = Self { tables: LateTables::new(), last: AtomicU32::new(0) };
    const MERGES: bool = true;
    const BYTES_PER_FRAME: usize = tables::BYTES_PER_FRAME;

    fn slab_order(params: &CacheParams, declared_cpus: u32) -> Order {
        order::slab_order(params.stride(), declared_cpus)
    }

    fn slab_header_bytes(_params: &CacheParams, _order: Order) -> usize {
        0
    }

    fn create(&self, context: &SlabContext<'_, P>, cache: &Cache) -> OsResult<()> {
        if cache.objects() > page_word::MAX_OBJECTS {
            return Err(OsError(libc::EINVAL));
        }
        let tables = self.tables.build(context)?;
        let bytes = tables.bytes_per_cache();
        context.metadata.count(MetadataKind::CpuSlabs, bytes);
        self.last.fetch_max(cache.id().index() as u32, Ordering::Release);
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

    fn alloc_slow(&self, context: &SlabContext<'_, P>, cache: &Cache) -> Option<Object> {
        self.of(context, cache).alloc_slow()
    }

    unsafe fn free_slow(&self, context: &SlabContext<'_, P>, cache: &Cache, object: Object) {
        let own = self.of(context, cache);
        own.count_free_slow(1);
        let slab = own.slab_of(object);
        // SAFETY: the caller gives up the object, which lies in `slab`.
        unsafe { own.free_run(slab, object, object, 1) };
    }

    fn alloc_bulk(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        out: &mut [MaybeUninit<Object>],
    ) -> usize {
        let own = self.of(context, cache);
        for (taken, place) in out.iter_mut().enumerate() {
            let fast = <Self as SlabPolicy<P>>::alloc_fast(context.percpu, cache.id());
            match fast.or_else(|| own.alloc_slow()) {
                Some(object) => place.write(object),
                None => return taken,
            };
        }
        out.len()
    }

    unsafe fn free_bulk(&self, context: &SlabContext<'_, P>, cache: &Cache, objects: &[Object]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.of(context, cache).free_bulk(objects) };
    }

    fn shrink(&self, context: &SlabContext<'_, P>, cache: &Cache) {
        self.of(context, cache).shrink();
    }

    fn stats(&self, context: &SlabContext<'_, P>, cache: &Cache) -> SlabStats {
        self.of(context, cache).stats()
    }

    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>) {
        if let Some(tables) = self.tables.get() {
            tables.visit_locks(context.caches, visit);
        }
    }

    fn validate(&self, context: &SlabContext<'_, P>, cache: &Cache) -> Result<(), Broken> {
        self.of(context, cache).validate()
    }
}
