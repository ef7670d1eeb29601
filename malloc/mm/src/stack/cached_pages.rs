//! The interface between a stack and its page cache, which gives up memory when the heap is short
//! of it. The cache is a type parameter, and costs nothing in a stack without a cache.
//!
//! The cache and the instruments use the stack as a [`StackHost`], and the stack uses the cache as
//! [`CachedPages`].

use super::budget_stats::BudgetStats;
use super::call::{Entry, Misuse, Request};
use super::instruments::Instrument;
use super::miss::{Claimant, Miss};
use super::stash::Stash;
use crate::frame::Metadata;
use crate::pcp::{PageAllocator, PagePolicy};
use crate::slab::{CacheId, CacheOptions, CacheParams};
#[cfg(feature = "groups")]
use crate::zone::Groups;
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, PerCpu};

/// A page cache that shares the budget of a stack. The default bodies are those of an empty cache.
pub trait CachedPages: Sized + Send + Sync + 'static {
    /// The options of the cache.
    type Options: Copy + Default + Send + Sync;

    /// An unused cache: all zero bytes.
    const NEW: Self;

    /// The name of the cache's LRU policy.
    fn policy(_options: &Self::Options) -> &'static str {
        "none"
    }

    /// Takes frames from the cache for a request, and attempts the request again; returns whether
    /// an attempt succeeded. Before any page, takes memory that costs less to make again than a
    /// page, by [`StackHost::take_in_parts`].
    fn reclaim_for<H: StackHost<Cache = Self>>(
        _host: &H,
        _miss: &mut Miss<'_>,
        _attempt: &mut dyn FnMut() -> bool,
    ) -> bool {
        false
    }

    /// Gives back memory that no page needs. O(1) if the cache is unused.
    fn trim<H: StackHost<Cache = Self>>(_host: &H) {}

    /// Frames that the cache holds. O(slots).
    fn frames<H: StackHost<Cache = Self>>(_host: &H) -> u64 {
        0
    }

    /// Fills in the cache's figures. O(descriptors).
    fn fill_stats<H: StackHost<Cache = Self>>(_host: &H, _stats: &mut BudgetStats) {}

    /// Visits each figure by its `/proc/vmstat` name; false if unused. O(slots + descriptors).
    fn visit_vmstat<H: StackHost<Cache = Self>>(
        _host: &H,
        _visit: &mut dyn FnMut(&'static str, u64),
    ) -> bool {
        false
    }

    /// Returns whether the cache has been used. O(1).
    fn is_used<H: StackHost<Cache = Self>>(_host: &H) -> bool {
        false
    }

    /// Counts a request of `frames` frames that was refused. O(slots).
    fn note_refusal<H: StackHost<Cache = Self>>(_host: &H, _frames: usize) {}

    /// Visits every lock. O(1).
    fn visit_locks<H: StackHost<Cache = Self>>(_host: &H, _visit: &mut Visit<'_>) {}

    /// Checks the cache, which no other task may use; fails with the first equation that does not
    /// hold. O(pages).
    fn validate<H: StackHost<Cache = Self>>(_host: &H) -> Result<(), Broken> {
        Ok(())
    }

    /// Pages in use, each of which has a first frame of the kind `CACHED`, and their frames.
    /// O(descriptors).
    fn pages_in_use<H: StackHost<Cache = Self>>(_host: &H) -> (u64, u64) {
        (0, 0)
    }
}

/// No cache.
impl CachedPages for () {
    type Options = ();

    const NEW: Self = ();
}

/// The layers of an initialised stack, and its services for its cache and its instruments.
pub trait StackHost: Sized {
    /// The cache.
    type Cache: CachedPages;
    /// The page policy.
    type Pages: PagePolicy;
    /// The per-CPU slots.
    type PerCpu: PerCpu;

    /// The cache itself.
    fn cached(&self) -> &Self::Cache;

    /// The options that the stack was made with.
    fn cache_options(&self) -> &<Self::Cache as CachedPages>::Options;

    /// The page allocator: zones and per-CPU page lists.
    fn pages(&self) -> &PageAllocator<Self::Pages>;

    /// The groups.
    #[cfg(feature = "groups")]
    fn groups(&self) -> &Groups;

    /// Memory for descriptors, which is never given back.
    fn metadata(&self) -> &Metadata;

    /// The slots, which callers may use before the stack is initialised.
    fn percpu(&self) -> &Self::PerCpu;

    /// Returns whether the size classes of `malloc` exist. They have the first cache numbers.
    fn has_classes(&self) -> bool;

    /// Creates a slab cache. Fails as [`create_cache`](crate::slab::create_cache) does.
    fn create_cache(
        &self,
        name: &str,
        params: &CacheParams,
        options: &CacheOptions,
    ) -> OsResult<CacheId>;

    /// Takes an object of a slab cache, without a reclaim.
    fn alloc_object(&self, cache: CacheId) -> Option<Object>;

    /// Gives objects back. O(objects).
    ///
    /// # Safety
    /// All objects were allocated from this slab cache, differ, and no task uses them any more.
    unsafe fn free_objects(&self, cache: CacheId, objects: &[Object]);

    /// Number of frames in a slab of this slab cache.
    fn slab_frames(&self, cache: CacheId) -> u32;

    /// Switches an instrument on or off. Requests under way on other CPUs may miss the change.
    fn switch_instrument(&self, instrument: Instrument, on: bool);

    /// Bytes of the object or block that starts at `address`, and that no instrument has seen;
    /// `None` if none does. Any address is allowed. O(1).
    fn unseen_bytes(&self, address: *mut u8) -> Option<usize>;

    /// Serves a request without the instruments.
    fn alloc_unseen(&self, request: Request) -> Option<Object>;

    /// Frees an allocation that no instrument recorded.
    ///
    /// # Safety
    /// Same as for [`Stack::free`](super::Stack::free).
    unsafe fn free_unseen(&self, object: Object);

    /// Reports misuse of a pointer, and aborts.
    fn misuse(&self, entry: Entry, address: *mut u8, misuse: Misuse) -> !;

    /// Does a direct reclaim for an attempt that needs up to `frames` frames. Calls `attempt`
    /// whenever enough may be free, until it succeeds or no more memory is worth freeing. Returns
    /// whether it succeeded.
    fn reclaim_for(
        &self,
        claimant: Claimant,
        frames: u32,
        attempt: &mut dyn FnMut() -> bool,
    ) -> bool;

    /// Gives `frames` frames of a stash to the zones, or the whole stash if it cannot give a part.
    /// O(caches * slots).
    fn give(&self, stash: Stash, frames: u32);

    /// Gives the zones memory of the stashes [`Stash::IN_PARTS`] until `missing` returns 0: up to
    /// `frames` frames of freed mappings, and some objects of barns. Returns whether `missing` has
    /// fallen. O(1) if these stashes are empty.
    fn take_in_parts(&self, frames: u32, missing: &dyn Fn() -> u32) -> bool;

    /// Gives all stashes but [`Stash::IN_PARTS`] to the zones. Leaves out the slots of other CPUs
    /// if the caller may not stop those CPUs (see [`PerCpu::reaches_every_slot`]).
    fn shrink_all(&self);
}
