//! Slab caches: objects of one size, many to a block of frames.
//!
//! A [`Cache`] says what its objects are and how they lie in a slab. A [`SlabPolicy`] says how they
//! travel: which per-CPU form holds them, what happens when it is empty or full, and what is kept
//! of a slab. Policies are types, so that each keeps a fast path of its own; nothing common stands
//! in front of them, or every comparison would be a tie.

mod barn;
mod barns;
mod bitmap_slabs;
mod cache;
mod cache_limits;
mod misuse;
mod populating;
pub mod sheaf;
pub mod slub;
mod width;

pub use barn::Barn;
pub use barns::BarnStats;
pub use bitmap_slabs::BitmapSlabs;
pub use cache::{Cache, CacheId, CacheParams, CacheTable, Geometry, GeometryOffsets, MAX_CACHES};
pub use cache_limits::CacheLimits;

use crate::frame::{Metadata, NodeId, Order, Pfn};
use crate::pcp::PageAllocator;
use core::mem::MaybeUninit;
use quarry_sys::broken::Broken;
use quarry_sys::lock::LockStats;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, PerCpu, Push, SlotIndex};

/// Objects that one slow-path step moves at most: the size of its buffer on the stack.
pub const MAX_BATCH: usize = 64;

/// What a slab policy works with.
pub struct SlabContext<'a, P: PerCpu> {
    /// The per-CPU slots.
    pub percpu: &'a P,
    /// Where slabs come from.
    pub pages: &'a PageAllocator,
    /// Where descriptors come from.
    pub metadata: &'a Metadata,
    /// All caches of the stack.
    pub caches: &'a CacheTable,
    /// What they keep together.
    pub kept: &'a CacheLimits,
    /// CPUs that formulas of the kernel are fed with.
    pub declared_cpus: u32,
}

/// What a cache has done so far; `slabinfo` prints it.
///
/// While nobody is at work, and with bulk requests counted by their objects:
/// * allocations - frees = `active_objects - parked_objects` = objects that callers have
/// * `slabs_allocated - slabs_freed = total_slabs`
/// * `partial_slabs <= active_slabs <= total_slabs`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlabStats {
    /// Objects in use by callers or parked on per-CPU lists.
    pub active_objects: u64,
    /// Objects of all slabs.
    pub total_objects: u64,
    /// Slabs with at least one object in use or parked.
    pub active_slabs: u64,
    /// Slabs held.
    pub total_slabs: u64,
    /// Slabs on partial lists.
    pub partial_slabs: u64,
    /// Objects on per-CPU lists and in barns.
    pub parked_objects: u64,
    /// Allocations served by the per-CPU form.
    pub alloc_fast: u64,
    /// Allocations that went further.
    pub alloc_slow: u64,
    /// Frees served by the per-CPU form.
    pub free_fast: u64,
    /// Frees that went further.
    pub free_slow: u64,
    /// Slabs taken from the page allocator.
    pub slabs_allocated: u64,
    /// Slabs given back.
    pub slabs_freed: u64,
    /// Times a CPU took over what others had freed into its slab (`ALLOC_REFILL`).
    pub refills: u64,
    /// Times a CPU let go of a slab that was used up (`DEACTIVATE_BYPASS`).
    pub deactivations: u64,
    /// Compare-and-swaps of a slab's word that somebody else was faster at (`CMPXCHG_DOUBLE_FAIL`).
    pub cmpxchg_fails: u64,
    /// Counters of the lock that guards the slabs.
    pub list_lock: LockStats,
    /// Counters of the barn's lock, where the policy has one.
    pub barn_lock: LockStats,
}

/// Who has not allocated or freed anything for a while; both always say the same.
pub struct Idle<'a> {
    /// CPUs, whatever the cache.
    pub slots: &'a dyn Fn(SlotIndex) -> bool,
    /// Caches, on whatever CPU.
    pub caches: &'a dyn Fn(CacheId) -> bool,
}

/// How the objects of caches travel between callers and slabs.
///
/// Every method is safe to call from any thread at any time. Slow paths hold no lock when they
/// call the page allocator.
pub trait SlabPolicy<P: PerCpu>: Sized + Sync {
    /// The policy's name, as options and tables print it.
    const NAME: &'static str;

    /// A policy without caches.
    const NEW: Self;

    /// Whether caches whose objects lie equally share one (see [`CacheTable::create`]).
    const MERGES: bool = false;

    /// Bytes of metadata per frame that the policy adds to the frame table's.
    const BYTES_PER_FRAME: usize = 0;

    /// The order of the slabs of a cache with these parameters.
    fn slab_order(params: &CacheParams, declared_cpus: u32) -> Order;

    /// Bytes at the start of each slab that the policy keeps for itself.
    fn slab_header_bytes(params: &CacheParams, order: Order) -> usize;

    /// Takes up a new cache.
    ///
    /// # Errors
    /// Where the OS refuses memory, or the slots have no room for one more cache.
    fn create(&self, context: &SlabContext<'_, P>, cache: &Cache) -> OsResult<()>;

    /// Takes an object from the running CPU, or `None`: then [`alloc_slow`](Self::alloc_slow).
    fn alloc_fast(percpu: &P, id: CacheId) -> Option<Object>;

    /// Gives an object to the running CPU; `Refused`: then [`free_slow`](Self::free_slow). `slab`
    /// is called by policies that have to know the slab.
    ///
    /// # Safety
    /// `object` is an allocated object of the cache, in the slab that `slab` names, and nobody uses
    /// it.
    unsafe fn free_fast(
        percpu: &P,
        id: CacheId,
        object: Object,
        slab: impl FnOnce() -> Pfn,
    ) -> Push;

    /// Whether `object` seems to be free already, at a glance at the running CPU's objects; false
    /// positives are rare, and [`is_parked`](Self::is_parked) has none.
    #[inline(always)]
    fn seems_parked(_percpu: &P, _id: CacheId, _object: Object) -> bool {
        false
    }

    /// Whether `object` is free already and lies where the running CPU would hand it out next. A
    /// policy that cannot look there says no.
    fn is_parked(&self, _context: &SlabContext<'_, P>, _cache: &Cache, _object: Object) -> bool {
        false
    }

    /// Takes an object from wherever there is one. `None` where there is no memory.
    fn alloc_slow(&self, context: &SlabContext<'_, P>, cache: &Cache) -> Option<Object>;

    /// Gives an object back.
    ///
    /// # Safety
    /// `object` is an allocated object of the cache and nobody uses it.
    unsafe fn free_slow(&self, context: &SlabContext<'_, P>, cache: &Cache, object: Object);

    /// Fills the front of `out` and returns how many there are.
    fn alloc_bulk(
        &self,
        context: &SlabContext<'_, P>,
        cache: &Cache,
        out: &mut [MaybeUninit<Object>],
    ) -> usize;

    /// Gives objects back.
    ///
    /// # Safety
    /// Each of `objects` is an allocated object of the cache, all differ, and nobody uses them.
    unsafe fn free_bulk(&self, context: &SlabContext<'_, P>, cache: &Cache, objects: &[Object]);

    /// Takes everything out of the slots and barns of a cache and returns its empty slabs.
    fn shrink(&self, context: &SlabContext<'_, P>, cache: &Cache);

    /// Gives what the arrays of slots hold that `idle` names back to the slabs, all by one barrier;
    /// returns whether there was anything. A policy that parks little per CPU need not do anything.
    fn shrink_slots(&self, _context: &SlabContext<'_, P>, _idle: &Idle<'_>) -> bool {
        false
    }

    /// Gives back what a cache has that nobody uses, beside what
    /// [`shrink_slots`](Self::shrink_slots) takes out of slots.
    fn shrink_idle(&self, context: &SlabContext<'_, P>, cache: &Cache) {
        self.shrink(context, cache);
    }

    /// Takes everything out of slots and barns, and returns empty slabs, of all caches.
    fn shrink_all(&self, context: &SlabContext<'_, P>) {
        self.shrink_slots(context, &Idle { slots: &|_| true, caches: &|_| true });
        for cache in context.caches.iter() {
            self.shrink_idle(context, cache);
        }
    }

    /// Gives what the cache has kept between CPUs and slabs, and nobody has needed since the last
    /// call, back to the slabs; returns whether there was anything.
    fn shrink_unneeded(&self, _context: &SlabContext<'_, P>, _cache: &Cache) -> bool {
        false
    }

    /// Called where a request was served from memory that nobody has touched yet: gives some of
    /// what all caches keep to the page allocator, for the next ones.
    fn relieve(&self, _context: &SlabContext<'_, P>) {}

    /// A number that changes with every object that is handed out or freed, unless as many enter
    /// and leave the slots in batches. O(slots) where a policy has something better than this.
    fn changes(&self, context: &SlabContext<'_, P>, cache: &Cache) -> u64 {
        let stats = self.stats(context, cache);
        stats.alloc_fast + stats.alloc_slow + stats.free_fast + stats.free_slow
    }

    /// What the cache has done so far.
    fn stats(&self, context: &SlabContext<'_, P>, cache: &Cache) -> SlabStats;

    /// What the cache keeps for the CPUs of a node, where the policy has barns.
    fn barn_stats(&self, _cache: &Cache, _node: NodeId) -> BarnStats {
        BarnStats::default()
    }

    /// Visits the locks of all caches.
    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>);

    /// Checks the cache's invariants; no other thread uses the cache meanwhile.
    ///
    /// # Errors
    /// The first equation that does not hold.
    fn validate(&self, context: &SlabContext<'_, P>, cache: &Cache) -> Result<(), Broken>;

    /// Checks what all caches together keep against [`CacheLimits`], where the policy counts there;
    /// no other thread uses any of them meanwhile.
    ///
    /// # Errors
    /// The first equation that does not hold.
    fn validate_limits(&self, _context: &SlabContext<'_, P>) -> Result<(), Broken> {
        Ok(())
    }
}
