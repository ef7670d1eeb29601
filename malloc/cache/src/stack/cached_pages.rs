//! The page cache as the cache of a stack.

use super::balance::pressure;
use super::caching::{Balancing, PageCaching, PageCachingOptions, add};
use super::evict::evict_for;
use crate::lru::LruPolicy;
use crate::page_cache::{EventCounts, PageCache};
use quarry_mm::stack::{BudgetStats, CachedPages, Miss, StackHost, bytes};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;

impl<P: LruPolicy> CachedPages for PageCaching<P> {
    type Options = PageCachingOptions<P>;

    const NEW: Self = Self { balancing: Balancing::new(), pages: PageCache::new() };

    fn policy(options: &PageCachingOptions<P>) -> &'static str {
        options.lru.policy.name()
    }

    #[inline]
    fn reclaim_for<H: StackHost<Cache = Self>>(
        host: &H,
        miss: &mut Miss<'_>,
        attempt: &mut dyn FnMut() -> bool,
    ) -> bool {
        let Some(cache) = PageCaching::opened(host) else { return false };
        evict_for(host, cache, miss, attempt)
    }

    fn trim<H: StackHost<Cache = Self>>(host: &H) {
        if let Some(cache) = PageCaching::opened(host) {
            cache.trim();
        }
    }

    fn frames<H: StackHost<Cache = Self>>(host: &H) -> u64 {
        PageCaching::opened(host).map_or(0, |cache| cache.events().in_memory())
    }

    fn fill_stats<H: StackHost<Cache = Self>>(host: &H, stats: &mut BudgetStats) {
        let balancing = &host.cached().balancing;
        if let Some(cache) = PageCaching::opened(host) {
            let events = cache.events();
            let count = |of: fn(&EventCounts) -> u64| bytes(of(&events));
            stats.file = count(EventCounts::pages);
            stats.dirty = count(EventCounts::dirty);
            stats.writeback = count(EventCounts::writeback);
            stats.pinned = bytes(cache.pinned_frames());
        }
        stats.shrinkable = balancing.shrinkers.reclaimable_bytes();
        stats.pressure = pressure(host);
        stats.balances = balancing.counts.snapshot();
        stats.group_refusals = host.groups().iter().map(|(_, group)| group.counts().0).sum();
    }

    fn visit_vmstat<H: StackHost<Cache = Self>>(
        host: &H,
        visit: &mut dyn FnMut(&'static str, u64),
    ) -> bool {
        let cache = PageCaching::opened(host);
        cache.inspect(|cache| cache.visit_vmstat(visit)).is_some()
    }

    fn is_used<H: StackHost<Cache = Self>>(host: &H) -> bool {
        PageCaching::opened(host).is_some()
    }

    fn note_refusal<H: StackHost<Cache = Self>>(host: &H, frames: usize) {
        let Some(cache) = PageCaching::opened(host) else { return };
        let (counts, dirty) = (&host.cached().balancing.counts, cache.events().dirty());
        add(&counts.refused, 1);
        add(&counts.refused_dirty, u64::from(dirty >= frames as u64));
    }

    fn visit_locks<H: StackHost<Cache = Self>>(host: &H, visit: &mut Visit<'_>) {
        host.cached().balancing.visit_locks(visit);
        host.cached().pages.visit_locks(visit);
        if let Some(cache) = PageCaching::opened(host) {
            cache.visit_locks(visit);
        }
    }

    fn validate<H: StackHost<Cache = Self>>(host: &H) -> Result<(), Broken> {
        PageCaching::opened(host).map_or(Ok(()), |cache| cache.validate())
    }

    fn pages_in_use<H: StackHost<Cache = Self>>(host: &H) -> (u64, u64) {
        PageCaching::opened(host).map_or((0, 0), |cache| cache.pages_in_use())
    }
}
