//! The cache of a stack: memory beside the heap that gives way to it, which is cached pages, and
//! what the program itself has registered. It is a type of its own, and costs nothing in a stack
//! without a cache.
//!
//! A cache knows its stack as a [`CacheHost`] only, and the stack its cache as [`CachedPages`].

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

/// A cache that shares the budget of a stack with its heap. Each function has a body for a cache
/// that holds nothing.
pub trait CachedPages: Sized + Send + Sync + 'static {
    /// Its choices.
    type Options: Copy + Default + Send + Sync;

    /// A cache that has not been used: all zero bytes.
    const NEW: Self;

    /// The policy of its lists, by name.
    fn policy(_options: &Self::Options) -> &'static str {
        "none"
    }

    /// Takes frames from the cache for a request, and attempts it again; returns whether that was
    /// served. First takes memory that is cheaper to get back than a page, by
    /// [`CacheHost::take_in_parts`].
    fn reclaim_for<H: CacheHost<Cache = Self>>(
        _host: &H,
        _miss: &mut Miss<'_>,
        _attempt: &mut dyn FnMut() -> bool,
    ) -> bool {
        false
    }

    /// Gives back memory that no page needs. O(1) where the cache has not been used.
    fn trim<H: CacheHost<Cache = Self>>(_host: &H) {}

    /// Frames that the cache holds. O(slots).
    fn frames<H: CacheHost<Cache = Self>>(_host: &H) -> u64 {
        0
    }

    /// Fills in the cache's part of the figures of the budget. O(descriptors).
    fn fill_stats<H: CacheHost<Cache = Self>>(_host: &H, _stats: &mut BudgetStats) {}

    /// Visits each figure of the cache by its name in `/proc/vmstat`; returns false, and visits
    /// none, where the cache has not been used. O(slots).
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

    /// In the child of a fork: ends what other threads were about to do with callbacks.
    fn adopt_in_child(&self) {}

    /// Checks the cache by itself; no other task may use it. O(pages).
    ///
    /// # Errors
    /// The first equation that does not hold.
    fn validate<H: CacheHost<Cache = Self>>(_host: &H) -> Result<(), Broken> {
        Ok(())
    }

    /// Pages that have a frame of the kind `CACHED` at their head. O(descriptors).
    fn pages_in_use<H: CacheHost<Cache = Self>>(_host: &H) -> u64 {
        0
    }

    /// Frames of the page that a frame of the kind `CACHED` names.
    fn frames_of_page<H: CacheHost<Cache = Self>>(_host: &H, _page: u32) -> u64 {
        0
    }
}

/// No cache: all of the budget is the heap's.
impl CachedPages for () {
    type Options = ();

    const NEW: Self = ();
}

/// The services of a stack for the cache that is part of it.
pub trait CacheHost: Sized {
    /// The cache.
    type Cache: CachedPages;
    /// The policy of the lists in front of the zones.
    type Pages: PagePolicy;

    /// The cache itself.
    fn cached(&self) -> &Self::Cache;

    /// The choices that the stack was made with.
    fn cache_options(&self) -> &<Self::Cache as CachedPages>::Options;

    /// The source of pages.
    fn pages(&self) -> &PageAllocator<Self::Pages>;

    /// Memory for descriptors, and their account.
    fn metadata(&self) -> &Metadata;

    /// The slot of the running CPU: a hint.
    fn slot(&self) -> SlotIndex;

    /// Number of slots.
    fn slots(&self) -> u32;

    /// Creates a slab cache for objects of the cache's own.
    ///
    /// # Errors
    /// Same as for [`CacheTable::add`](crate::slab::CacheTable::add).
    fn create_slab_cache(&self, name: &str, params: &CacheParams) -> OsResult<CacheId>;

    /// Takes an object of a slab cache, without a reclaim.
    fn alloc_object(&self, cache: CacheId) -> Option<Object>;

    /// Gives objects back.
    ///
    /// # Safety
    /// All were allocated from this slab cache, differ, and no task uses them any more.
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

    /// Does a direct reclaim, and calls `attempt` whenever this may have freed enough, until one
    /// attempt succeeds or nothing more is worth freeing. Returns whether one has succeeded. An
    /// attempt may have to take `frames` frames.
    fn reclaim_for(
        &self,
        claimant: Claimant,
        frames: u32,
        attempt: &mut dyn FnMut() -> bool,
    ) -> bool;

    /// Does a stage of a direct reclaim, and notes what it took.
    fn timed<T>(&self, work: impl FnOnce() -> T) -> T;

    /// Gives the memory of a stash to the zones: `frames` frames where it can give a part, all of
    /// it otherwise. O(caches * slots).
    fn give(&self, stash: Stash, frames: u32);

    /// Gives the zones memory of those stashes that can give a part of what they hold, one after
    /// the other, until `missing` returns 0: up to `frames` frames of freed mappings, and some
    /// objects of barns. Returns whether `missing` returns less than before. O(1) where nothing is
    /// held.
    fn take_in_parts(&self, frames: u32, missing: &dyn Fn() -> u32) -> bool;

    /// See [`Upkeep::shrink_all`](super::upkeep::Upkeep::shrink_all).
    fn shrink_all(&self);
}
