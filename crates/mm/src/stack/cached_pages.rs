//! The interface between a stack and its page cache, which gives its memory to the heap when that
//! is short. The cache is a type parameter, and costs nothing in a stack without one.
//!
//! The cache uses the stack as a [`CacheHost`], and the stack uses the cache as [`CachedPages`].

use super::budget_stats::BudgetStats;
use super::miss::{Claimant, Miss};
use super::stash::Stash;
use crate::frame::Metadata;
use crate::pcp::{PageAllocator, PagePolicy};
use crate::slab::{CacheId, CacheParams};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, SlotIndex, WordTree};

/// A page cache that shares the budget of a stack. The default bodies are those of an empty cache.
pub trait CachedPages: Sized + Send + Sync + 'static {
    /// Its options.
    type Options: Copy + Default + Send + Sync;

    /// An unused cache: all zero bytes.
    const NEW: Self;

    /// The name of its LRU policy.
    fn policy(_options: &Self::Options) -> &'static str {
        "none"
    }

    /// Takes frames from the cache for a request, and attempts the request again; returns whether
    /// an attempt succeeded. Calls [`CacheHost::take_in_parts`] first, for memory that costs less
    /// to have again than a page.
    fn reclaim_for<H: CacheHost<Cache = Self>>(
        _host: &H,
        _miss: &mut Miss<'_>,
        _attempt: &mut dyn FnMut() -> bool,
    ) -> bool {
        false
    }

    /// Gives back memory that no page needs. O(1) if the cache is unused.
    fn trim<H: CacheHost<Cache = Self>>(_host: &H) {}

    /// Frames that the cache holds. O(slots).
    fn frames<H: CacheHost<Cache = Self>>(_host: &H) -> u64 {
        0
    }

    /// Fills in the cache's figures. O(descriptors).
    fn fill_stats<H: CacheHost<Cache = Self>>(_host: &H, _stats: &mut BudgetStats) {}

    /// Visits each figure by its name in `/proc/vmstat`; returns false if unused. O(slots).
    fn visit_vmstat<H: CacheHost<Cache = Self>>(
        _host: &H,
        _visit: &mut dyn FnMut(&'static str, u64),
    ) -> bool {
        false
    }

    /// Returns whether the cache has been used. O(1).
    fn is_used<H: CacheHost<Cache = Self>>(_host: &H) -> bool {
        false
    }

    /// Counts a request of `frames` frames that was refused. O(slots).
    fn note_refusal<H: CacheHost<Cache = Self>>(_host: &H, _frames: usize) {}

    /// Visits every lock. O(1).
    fn visit_locks<H: CacheHost<Cache = Self>>(_host: &H, _visit: &mut Visit<'_>) {}

    /// In the child of a fork: ends calls of callbacks that other threads had begun.
    fn adopt_in_child(&self) {}

    /// Checks the cache, which no other task may use. O(pages).
    ///
    /// # Errors
    /// The first equation that does not hold.
    fn validate<H: CacheHost<Cache = Self>>(_host: &H) -> Result<(), Broken> {
        Ok(())
    }

    /// Pages in use, each of which has a first frame of the kind `CACHED`. O(descriptors).
    fn pages_in_use<H: CacheHost<Cache = Self>>(_host: &H) -> u64 {
        0
    }

    /// Frames of the page that the link of a frame of the kind `CACHED` names.
    fn frames_of_page<H: CacheHost<Cache = Self>>(_host: &H, _page: u32) -> u64 {
        0
    }
}

/// No cache.
impl CachedPages for () {
    type Options = ();

    const NEW: Self = ();
}

/// The services of a stack for its cache.
pub trait CacheHost: Sized {
    /// The cache.
    type Cache: CachedPages;
    /// The page policy.
    type Pages: PagePolicy;

    /// The cache itself.
    fn cached(&self) -> &Self::Cache;

    /// The options that the stack was made with.
    fn cache_options(&self) -> &<Self::Cache as CachedPages>::Options;

    /// The source of pages.
    fn pages(&self) -> &PageAllocator<Self::Pages>;

    /// Memory for descriptors.
    fn metadata(&self) -> &Metadata;

    /// The slot of the running CPU: a hint.
    fn slot(&self) -> SlotIndex;

    /// Number of slots.
    fn slots(&self) -> u32;

    /// Creates a slab cache.
    ///
    /// # Errors
    /// Same as for [`CacheTable::add`](crate::slab::CacheTable::add).
    fn create_slab_cache(&self, name: &str, params: &CacheParams) -> OsResult<CacheId>;

    /// Takes an object of a slab cache, without a reclaim.
    fn alloc_object(&self, cache: CacheId) -> Option<Object>;

    /// Gives objects back.
    ///
    /// # Safety
    /// All objects were allocated from this slab cache, differ, and no task uses them any more.
    unsafe fn free_objects(&self, cache: CacheId, objects: &[Object]);

    /// Frames of a slab of a slab cache.
    fn slab_frames(&self, cache: CacheId) -> u32;

    /// See [`PerCpu::wait_for_walks`](quarry_sys::percpu::PerCpu::wait_for_walks).
    fn wait_for_walks(&self) -> bool;

    /// See [`PerCpu::walk`](quarry_sys::percpu::PerCpu::walk).
    ///
    /// # Safety
    /// Same as for `PerCpu::walk`.
    unsafe fn walk(&self, tree: &WordTree, index: u64) -> u64;

    /// Does a direct reclaim for an attempt that needs up to `frames` frames. Calls `attempt`
    /// whenever enough may be free, until it succeeds or no more memory is worth freeing. Returns
    /// whether it succeeded.
    fn reclaim_for(
        &self,
        claimant: Claimant,
        frames: u32,
        attempt: &mut dyn FnMut() -> bool,
    ) -> bool;

    /// Does a stage of a direct reclaim, and notes its duration.
    fn timed<T>(&self, work: impl FnOnce() -> T) -> T;

    /// Gives `frames` frames of a stash, or all if it cannot give a part, to the zones. O(caches *
    /// slots).
    fn give(&self, stash: Stash, frames: u32);

    /// Gives the zones memory of the stashes [`Stash::IN_PARTS`] until `missing` returns 0: up to
    /// `frames` frames of freed mappings, and some objects of barns. Returns whether `missing` has
    /// fallen. O(1) if these stashes are empty.
    fn take_in_parts(&self, frames: u32, missing: &dyn Fn() -> u32) -> bool;

    /// See [`Upkeep::shrink_all`](super::upkeep::Upkeep::shrink_all).
    fn shrink_all(&self);
}
