//! The trait of slab policies.

use super::cache::{Cache, CacheId, SlabLayout};
use super::context::SlabContext;
use super::misuse::not_in_use;
use super::params::{CacheOptions, CacheParams};
use super::parked::ParkedObjects;
use super::reclaim::{Reclaim, SparseWalk};
use super::stats::{Occupancy, SlabStats};
use super::table::CacheRequest;
use crate::frame::{Order, Pfn};
use core::mem::MaybeUninit;
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, PerCpu, Push};

/// Moves the objects of caches between callers and slabs.
///
/// Every method is safe to call from any thread at any time. Slow paths hold no lock when they call
/// the page allocator. A policy is one type; this trait is what every policy has, and
/// [`ParkedObjects`] what it may have besides.
pub trait SlabPolicy<P: PerCpu>: ParkedObjects<P> + Sync {
    /// The policy's name, as options and tables print it.
    const NAME: &'static str;

    /// A policy without caches; all zero bytes.
    const NEW: Self;

    /// True if caches whose objects lie equally share one (see
    /// [`CacheTable::add`](super::CacheTable::add)).
    const MERGES: bool = false;

    /// True if the policy may write to the first word of an object that is free, to link it to
    /// another. Objects of caches with a constructor then begin with room for that word (see
    /// [`Cache`]).
    const LINKS_THROUGH_OBJECTS: bool = false;

    /// Bytes of the largest request that the policy's `kmalloc` serves from a cache; larger ones
    /// are passed through to the page allocator. Without a bound of its own, a policy has caches up
    /// to the largest block (`KMALLOC_MAX_SIZE`).
    const LARGEST_KMALLOC: usize = Order::MAX.bytes();

    /// Bytes of metadata per frame that the policy adds to the frame table's.
    const BYTES_PER_FRAME: usize = 0;

    /// The arrangement of slabs of a cache with these parameters.
    fn layout(params: &CacheParams, declared_cpus: u32) -> SlabLayout;

    /// Takes up a new cache. Where [`Cache::is_reused`], its number belonged to a cache that has
    /// been emptied and is gone: the policy starts as for a new number, and counts no metadata
    /// twice.
    ///
    /// # Errors
    /// Where the OS refuses memory, or the slots have no room for one more cache.
    fn create(&self, context: &SlabContext<'_, P>, cache: &Cache) -> OsResult<()>;

    /// Returns whether every free goes to [`free_slow`](Self::free_slow), although
    /// [`free_fast`](Self::free_fast) could serve it: the policy checks each object first.
    #[inline(always)]
    fn looks_at_frees(&self) -> bool {
        false
    }

    /// Takes an object from the running CPU; after `None`, call
    /// [`alloc_from_slabs`](Self::alloc_from_slabs).
    fn alloc_fast(percpu: &P, id: CacheId) -> Option<Object>;

    /// Gives an object to the running CPU; after `Refused`, call [`free_slow`](Self::free_slow).
    /// Policies that have to know the slab call `slab`.
    ///
    /// # Safety
    /// `object` is an allocated object of the cache, in the slab that `slab` names, and its user
    /// has given it up.
    unsafe fn free_fast(
        percpu: &P,
        id: CacheId,
        object: Object,
        slab: impl FnOnce() -> Pfn,
    ) -> Push;

    /// Takes an object from any place that has one. `None` where there is no memory.
    fn alloc_from_slabs(&self, context: &SlabContext<'_, P>, cache: &Cache) -> Option<Object>;

    /// Gives an object back.
    ///
    /// # Safety
    /// `object` is an allocated object of the cache, and its user has given it up.
    unsafe fn free_slow(&self, context: &SlabContext<'_, P>, cache: &Cache, object: Object);

    /// Fills the front of `out` and returns how many objects there are, fewer than asked only where
    /// memory is short. By default takes one after the other.
    fn alloc_bulk(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        out: &mut [MaybeUninit<Object>],
    ) -> usize {
        for (taken, place) in out.iter_mut().enumerate() {
            let fast = Self::alloc_fast(context.percpu, cache.id());
            match fast.or_else(|| self.alloc_from_slabs(context, cache)) {
                Some(object) => place.write(object),
                None => return taken,
            };
        }
        out.len()
    }

    /// Gives objects back. By default frees one after the other.
    ///
    /// # Safety
    /// Each of `objects` is an allocated object of the cache, all differ, and their user has given
    /// them up.
    unsafe fn free_bulk(&self, context: &SlabContext<'_, P>, cache: &Cache, objects: &[Object]) {
        for &object in objects {
            let slab = || context.slab_of(cache, object);
            if self.looks_at_frees() {
                // SAFETY: the caller's promise is passed on.
                unsafe { self.free_slow(context, cache, object) };
                continue;
            }
            // SAFETY: the caller's promise is passed on; the slab is the object's.
            match unsafe { Self::free_fast(context.percpu, cache.id(), object, slab) } {
                Push::Stored => {}
                // SAFETY: the caller's promise is passed on.
                Push::Refused => unsafe { self.free_slow(context, cache, object) },
                Push::Duplicate => not_in_use(cache, object),
            }
        }
    }

    /// Gives back what `what` names; returns how many caches, and slots taken together as one, had
    /// something to give. A policy that holds nothing of the kind does nothing.
    fn reclaim(&self, context: &SlabContext<'_, P>, what: Reclaim<'_>) -> u32;

    /// Gives back some of what caches hold between CPUs and slabs, down to their bound under
    /// pressure: a request was served from memory that was never touched. Requests call it, which
    /// may have little stack.
    fn relieve(&self, _context: &SlabContext<'_, P>) {}

    /// A step of a walk through the slabs of a cache: gives pages without an object in use back to
    /// the operating system, and returns the bytes. A policy that stores something in free objects
    /// ends the walk.
    fn purge_sparse(
        &self,
        _context: &SlabContext<'_, P>,
        _cache: &Cache,
        walk: &mut SparseWalk,
    ) -> usize {
        *walk = SparseWalk::OVER;
        0
    }

    /// The occupancy of the slab of an object, which the caller keeps in use during the call;
    /// `None` where the object is free in its slab, or the policy cannot tell. O(1).
    fn occupancy(
        &self,
        _context: &SlabContext<'_, P>,
        _cache: &Cache,
        _object: Object,
    ) -> Option<Occupancy> {
        None
    }

    /// Takes an object of the fullest slab that has one, not one of CPUs or barns, so that a
    /// program can move another object there. `None` where there is no memory, or the policy cannot
    /// do this.
    fn alloc_dense(&self, _context: &SlabContext<'_, P>, _cache: &Cache) -> Option<Object> {
        None
    }

    /// Gives an object back to its slab at once, so that requests get objects of fuller slabs
    /// first. Returns false, and does nothing, where the policy cannot do this.
    ///
    /// # Safety
    /// Same as for [`free_slow`](Self::free_slow).
    unsafe fn free_dense(
        &self,
        _context: &SlabContext<'_, P>,
        _cache: &Cache,
        _object: Object,
    ) -> bool {
        false
    }

    /// The counts of the cache. A snapshot: its parts are read one after the other.
    fn stats(&self, context: &SlabContext<'_, P>, cache: &Cache) -> SlabStats;

    /// Visits the number of every object of a slab that is free in it, for reports of objects that
    /// were never freed. Objects in slots, barns and lists are not in their slab: the caller
    /// shrinks the cache first, and lets no other thread use it during the call. O(objects).
    fn visit_free(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        slab: Pfn,
        visit: &mut dyn FnMut(u32),
    );

    /// Visits the locks of all caches.
    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>);

    /// Checks the invariants of every cache, and those that the caches have together; no other
    /// thread may use any of them during the check.
    ///
    /// # Errors
    /// The first equation that does not hold.
    fn validate(&self, context: &SlabContext<'_, P>) -> Result<(), Broken>;
}

/// Adds a cache to the table of `context` and lets the policy take it up.
///
/// # Errors
/// Same as [`CacheTable::add`](super::CacheTable::add).
pub fn create_cache<'a, P: PerCpu, S: SlabPolicy<P>>(
    context: &SlabContext<'a, P>,
    policy: &S,
    name: &str,
    params: &CacheParams,
    options: &CacheOptions,
) -> OsResult<&'a Cache> {
    let layout = |params: &CacheParams| S::layout(params, context.setup.declared_cpus);
    let merges = S::MERGES && context.setup.mechanisms.merging;
    let request = CacheRequest { name, params, options, merges, links: S::LINKS_THROUGH_OBJECTS };
    context.caches.add(&request, layout, |cache| {
        policy.create(context, cache)?;
        let fills_pages = cache.stride() <= context.zones.arena().os().page_size();
        context.zones.note_touched(cache.id().kind(), fills_pages);
        Ok(())
    })
}
