//! The trait that every slab policy implements.

use super::cache::{Cache, CacheId, SlabLayout};
use super::context::{CacheIn, PolicyOptions, SlabContext};
use super::misuse::not_in_use;
use super::params::{CacheOptions, CacheParams};
use super::reclaim::{Reclaim, SparseWalk};
use super::stats::{Occupancy, SlabStats};
use super::table::CacheRequest;
use crate::frame::{Order, Pfn};
use core::mem::MaybeUninit;
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, PerCpu, Push};

/// Moves the objects of caches between callers and slabs. A policy is one type.
///
/// Any thread may call any method. Slow paths hold no lock when they call the page allocator.
pub trait SlabPolicy<P: PerCpu>: Sized + Sync {
    /// The policy's name, as options and tables print it.
    const NAME: &'static str;

    /// The policy without caches: all zero bytes.
    const NEW: Self;

    /// The options of the policy alone, as [`set_option`](Self::set_option) knows them: a line for
    /// each, with tabs between its name, what it accepts and what it means.
    const OPTIONS: &'static str = "";

    /// True if the policy writes a link to the first word of a free object. Objects of caches with
    /// a constructor then begin with room for the link (see [`Cache`]).
    const LINKS_THROUGH_OBJECTS: bool = false;

    /// False if [`looks_at_frees`](Self::looks_at_frees) never returns true.
    const LOOKS_AT_FREES: bool = false;

    /// Bytes of the largest request that the policy's `kmalloc` serves from a cache. Larger
    /// requests go to the page allocator. The default is the largest block (`KMALLOC_MAX_SIZE`).
    const LARGEST_KMALLOC: usize = Order::MAX.bytes();

    /// Bytes of metadata per frame that the policy needs besides the frame table.
    const BYTES_PER_FRAME: usize = 0;

    /// The layout of the slabs of loose caches; `None` if there can be none.
    const LOOSE_LAYOUT: Option<fn(&CacheParams) -> SlabLayout> = None;

    /// Returns whether the policy has this name, or this alias.
    fn is_called(name: &str) -> bool {
        name == Self::NAME
    }

    /// Sets one of [`OPTIONS`](Self::OPTIONS); returns false, and sets nothing, if it does not
    /// accept the value.
    fn set_option(_options: &mut PolicyOptions, _name: &str, _value: &str) -> bool {
        false
    }

    /// Returns whether caches of the same stride become one cache.
    fn merges(_options: PolicyOptions) -> bool {
        false
    }

    /// The layout of the slabs of a cache with these parameters.
    fn layout(params: &CacheParams, declared_cpus: u32) -> SlabLayout;

    /// Prepares for a new cache. If [`Cache::is_reused`], an earlier cache with its number was
    /// emptied and removed: the policy must not count the metadata of that number again.
    ///
    /// # Errors
    /// If the OS refuses memory, or the slots have no room for one more cache.
    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()>;

    /// Returns whether every free must go to [`free_slow`](Self::free_slow), to be checked. Only
    /// creating a cache changes the answer.
    #[inline(always)]
    fn looks_at_frees(&self) -> bool {
        false
    }

    /// Takes an object from the running CPU; after `None`, call
    /// [`alloc_from_slabs`](Self::alloc_from_slabs).
    fn alloc_fast(percpu: &P, id: CacheId) -> Option<Object>;

    /// Gives an object to the running CPU; after `Refused`, call [`free_slow`](Self::free_slow). A
    /// policy that needs the object's slab calls `slab`.
    ///
    /// # Safety
    /// `object` is an allocated object of the cache, given up by its user; `slab` returns its slab.
    unsafe fn free_fast(
        percpu: &P,
        id: CacheId,
        object: Object,
        slab: impl FnOnce() -> Pfn,
    ) -> Push;

    /// Takes an object from any place that has one. `None` if there is no memory.
    fn alloc_from_slabs(&self, cache: CacheIn<'_, P>) -> Option<Object>;

    /// Gives an object back.
    ///
    /// # Safety
    /// `object` is an allocated object of the cache, and its user has given it up.
    unsafe fn free_slow(&self, cache: CacheIn<'_, P>, object: Object);

    /// Fills `out` from the front; returns the number of objects: all, unless memory is short.
    fn alloc_bulk(&self, cache: CacheIn<'_, P>, out: &mut [MaybeUninit<Object>]) -> usize {
        for (taken, place) in out.iter_mut().enumerate() {
            let fast = Self::alloc_fast(cache.context.percpu, cache.id());
            match fast.or_else(|| self.alloc_from_slabs(cache)) {
                Some(object) => place.write(object),
                None => return taken,
            };
        }
        out.len()
    }

    /// Gives objects back.
    ///
    /// # Safety
    /// `objects` are different allocated objects of the cache, and their user has given them up.
    unsafe fn free_bulk(&self, cache: CacheIn<'_, P>, objects: &[Object]) {
        for &object in objects {
            let slab = || cache.context.slab_of(&cache, object);
            if self.looks_at_frees() {
                // SAFETY: the caller's promise is passed on.
                unsafe { self.free_slow(cache, object) };
                continue;
            }
            // SAFETY: the caller's promise is passed on, and the slab is the object's.
            match unsafe { Self::free_fast(cache.context.percpu, cache.id(), object, slab) } {
                Push::Stored => {}
                // SAFETY: the caller's promise is passed on.
                Push::Refused => unsafe { self.free_slow(cache, object) },
                Push::Duplicate => not_in_use(&cache, object),
            }
        }
    }

    /// Gives back the unused memory that `what` names. Returns how many caches gave some, plus one
    /// if slots did; for requests other than [`Reclaim::Idle`] the number may be too low.
    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32;

    /// Shrinks barns and stocks to their bound under pressure: a request took memory that was never
    /// touched, or memory is short. Little of the thread's stack may be left.
    fn relieve(&self, _context: &SlabContext<'_, P>) {}

    /// Bytes of free objects in slabs and barns: a bound for what a reclaim may give back, because
    /// neighbours in use keep some of their pages. 0 if the policy has no such count. O(caches).
    fn spare_bytes(&self, _context: &SlabContext<'_, P>) -> usize {
        0
    }

    /// One step of a walk through a cache's slabs: gives back pages without an object in use, and
    /// returns the bytes. The default, for policies that write into free objects, ends the walk.
    fn purge_sparse(&self, _cache: CacheIn<'_, P>, walk: &mut SparseWalk) -> usize {
        *walk = SparseWalk::OVER;
        0
    }

    /// The occupancy of the slab of `object`. The caller keeps the object in use during the call.
    /// `None` if it is free in its slab, or the policy cannot tell. O(1).
    fn occupancy(&self, _cache: CacheIn<'_, P>, _object: Object) -> Option<Occupancy> {
        None
    }

    /// Takes an object from the fullest slab that has a free one, not from CPUs or barns, so that a
    /// program can move its data there. `None` if memory is short, or the policy cannot do this.
    fn alloc_dense(&self, _cache: CacheIn<'_, P>) -> Option<Object> {
        None
    }

    /// Gives an object to its slab at once. There it waits until fuller slabs have no free object
    /// left. Returns false, and does nothing, if the policy cannot do this.
    ///
    /// # Safety
    /// Same as for [`free_slow`](Self::free_slow).
    unsafe fn free_dense(&self, _cache: CacheIn<'_, P>, _object: Object) -> bool {
        false
    }

    /// The counts of the cache, read one after the other.
    fn stats(&self, cache: CacheIn<'_, P>) -> SlabStats;

    /// Returns whether `object` seems to be among the running CPU's free objects. The answer true
    /// is rarely wrong here, and never for [`is_parked`](Self::is_parked). Both defaults are for
    /// policies that park nothing or cannot tell.
    #[inline(always)]
    fn seems_parked(_percpu: &P, _id: CacheId, _object: Object) -> bool {
        false
    }

    /// Returns whether `object` is free, and one of the next few that the running CPU hands out.
    fn is_parked(&self, _cache: CacheIn<'_, P>, _object: Object) -> bool {
        false
    }

    /// A number that changes with every allocation and free. (A batch in may cancel a batch out.)
    /// `None` if the policy has no counter that is cheaper to read than its statistics. O(slots).
    fn activity(&self, _cache: CacheIn<'_, P>) -> Option<u64> {
        None
    }

    /// Visits the number of every object that is free in `slab`, for reports of objects that were
    /// never freed. Parked objects do not count as free in their slab, so the caller shrinks the
    /// cache first. No other thread uses the cache. O(objects).
    fn visit_free(&self, cache: CacheIn<'_, P>, slab: Pfn, visit: &mut dyn FnMut(u32));

    /// Visits the locks of all caches.
    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>);

    /// Checks the invariants of all caches, which no other thread may use at that time. Fails with
    /// the first equation that does not hold.
    fn validate(&self, context: &SlabContext<'_, P>) -> Result<(), Broken>;
}

/// Adds a cache to the table of `context`, and tells the policy.
///
/// # Errors
/// `ENOSPC` if all numbers are in use and there can be no loose caches; `EINVAL` if the size is 0,
/// the alignment is not a power of two or no slab of at most 4 MiB holds an object; or the error of
/// [`SlabPolicy::create`].
pub fn create_cache<'a, P: PerCpu, S: SlabPolicy<P>>(
    context: &SlabContext<'a, P>,
    policy: &S,
    name: &str,
    params: &CacheParams,
    options: &CacheOptions,
) -> OsResult<&'a Cache> {
    let layout = |params: &CacheParams| S::layout(params, context.setup.declared_cpus);
    let merges = S::merges(context.setup.options);
    let (links, loose_layout) = (S::LINKS_THROUGH_OBJECTS, S::LOOSE_LAYOUT);
    let request = CacheRequest { name, params, options, merges, links, loose_layout };
    context.caches.add(&request, context.metadata, layout, |cache| {
        policy.create(context.with(cache))?;
        if cache.id().place().is_some() {
            return Ok(());
        }
        let fills_pages = cache.stride() <= context.zones.arena().os().page_size();
        context.zones.note_touched(cache.id().kind(), fills_pages);
        Ok(())
    })
}
