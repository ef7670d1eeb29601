//! Direct reclaim: a task whose request found no memory reclaims some and attempts the request
//! again, if that is worth the time (see `deferral.rs`).
//!
//! Memory that the task frees while it reclaims belongs to its request (the *claim*, see
//! `zone/reclaimers.rs`). Other tasks whose requests find no memory reclaim for themselves. There
//! are two stages; the second runs only if the first does not help:
//!
//! 1. with a page cache: freed mappings and barns' objects go to the zones, then pages, which cost
//!    more to make again (see [`CachedPages::reclaim_for`](super::CachedPages::reclaim_for));
//! 2. unused memory of Quarry itself goes to the zones: parked objects, lists, cached mappings. For
//!    10 ms after a try that did not help, Quarry tries again only where it may find memory.
//!
//! A task that reclaims already starts no direct reclaim. Without a claim it may use the reserve.

use super::cached_pages::CachedPages;
use super::instance::{Stack, StackConfig};
use super::miss::{Claimant, Miss};
use super::stash::Stash;
use crate::slab::{Cache, SlabPolicy};
use quarry_sys::clock::{coarse_ns, monotonic_ns};
use quarry_sys::own_stack;
use quarry_sys::primitive::Ordering::Relaxed;

/// Nanoseconds from a reclaim that has not helped to the next one. A reclaim takes 5 us if Quarry
/// holds no memory, and up to a millisecond if many CPUs hold much.
const DEFERRED_NS: u64 = 10_000_000;

impl<C: StackConfig> Stack<C> {
    #[cold]
    pub(super) fn after_reclaim<T>(
        &self,
        frames: u32,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        self.reclaim_for(Claimant::Heap, frames, &mut || {
            found = attempt();
            found.is_some()
        });
        found
    }

    pub(super) fn reclaim_for(
        &self,
        claimant: Claimant,
        frames: u32,
        attempt: &mut dyn FnMut() -> bool,
    ) -> bool {
        let budget = self.pages().zones().budget();
        let Some(mut miss) = Miss::begin(budget, claimant, frames) else { return false };
        if C::Cache::is_used(self)
            && own_stack::run(|| self.timed(|| C::Cache::reclaim_for(self, &mut miss, attempt)))
        {
            return true;
        }
        self.is_reclaim_due(frames) && own_stack::run(|| self.reclaim_parked(attempt))
    }

    /// Does a stage, and notes its duration.
    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = monotonic_ns();
        let done = work();
        self.deferral.took.note(monotonic_ns().saturating_sub(start));
        done
    }

    /// Gives all stashes to the zones; returns whether frames came free. O(caches * slots).
    #[cold]
    fn direct_reclaim(&self) -> bool {
        let pages = self.pages();
        // Frames that the claim collects have come free, although the budget still charges them.
        let before = self.used_beside_claims();
        self.give(Stash::Mappings, u32::MAX);
        self.shrink_all();
        // Free pageblocks go back to the window, because a zone of another node may lack addresses.
        let given_back = pages.zones().is_crowded() && pages.zones().give_back() > 0;
        given_back || self.used_beside_claims() < before
    }

    /// The second stage.
    #[inline(never)]
    fn reclaim_parked(&self, attempt: &mut dyn FnMut() -> bool) -> bool {
        self.deferral.reclaims.fetch_add(1, Relaxed);
        // Noted before the reclaim, so that `has_freed` sees objects that are freed while it runs.
        self.note_caches();
        let has_found = self.timed(|| self.direct_reclaim());
        let is_served = has_found && attempt();
        let deferral = &self.deferral;
        deferral.used.store(self.used_beside_claims(), Relaxed);
        let until = if is_served { 0 } else { coarse_ns() + DEFERRED_NS };
        deferral.until_ns.store(until, Relaxed);
        is_served
    }

    fn used_beside_claims(&self) -> u32 {
        let budget = self.pages().zones().budget();
        budget.used().saturating_sub(budget.claimed())
    }

    /// Returns whether a reclaim may find memory for `frames` frames. O(caches * slots).
    fn is_reclaim_due(&self, frames: u32) -> bool {
        let deferral = &self.deferral;
        let until = deferral.until_ns.load(Relaxed);
        if until == 0 {
            return true;
        }
        let (budget, before) = (self.pages().zones().budget(), deferral.used.load(Relaxed));
        let (used, room) = (self.used_beside_claims(), budget.limit().saturating_sub(before));
        used < before
            || used > before && frames <= room
            || [Stash::Mappings, Stash::Withheld, Stash::Lists].iter().any(|it| self.holds(*it))
            || self.has_gone_slabs()
            || coarse_ns() >= until
            || own_stack::run(|| self.caches.iter().any(|cache| self.has_freed(cache)))
    }

    fn note_caches(&self) {
        let context = self.context();
        for cache in self.caches.iter() {
            let seen = self.deferral.of(cache);
            seen.activity.store(self.slab.activity(context.with(cache)).unwrap_or(0), Relaxed);
            seen.live.store(self.live_objects(cache), Relaxed);
        }
    }

    /// Returns whether a cache has fewer objects in use than at the last reclaim.
    #[inline(never)]
    fn has_freed(&self, cache: &Cache) -> bool {
        let seen = self.deferral.of(cache);
        let live = seen.live.load(Relaxed);
        let activity = || self.slab.activity(self.context().with(cache));
        live > 0
            && activity().is_none_or(|now| now != seen.activity.load(Relaxed))
            && self.live_objects(cache) < live
    }

    /// Not inlined, so that its counts lie on the thread's stack only while it runs.
    #[inline(never)]
    fn live_objects(&self, cache: &Cache) -> u64 {
        let stats = self.slab.stats(self.context().with(cache));
        stats.allocs().saturating_sub(stats.frees())
    }
}
