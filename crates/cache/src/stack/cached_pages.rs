//! The page cache as the cache of a stack.

use super::balance::pressure;
use super::caching::{Balancing, PageCaching, PageCachingOptions, add};
use super::evict::evict_for;
use super::host::CachingStack;
use crate::lru::{LruPolicy, PageNo};
use crate::page_cache::{EventCounts, PageCache};
use quarry_mm::frame::FRAME_BYTES;
use quarry_mm::stack::{BudgetStats, CachedPages, Miss, StackHost, bytes};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::own_stack;

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
        let Some(cache) = host.used_page_cache() else { return false };
        own_stack::run(|| host.timed(|| evict_for(host, cache, miss, attempt)))
    }

    fn trim<H: StackHost<Cache = Self>>(host: &H) {
        if let Some(cache) = host.used_page_cache() {
            cache.trim();
        }
    }

    fn frames<H: StackHost<Cache = Self>>(host: &H) -> u64 {
        host.used_page_cache().map_or(0, |cache| cache.events().in_memory())
    }

    fn fill_stats<H: StackHost<Cache = Self>>(host: &H, stats: &mut BudgetStats) {
        let balancing = &host.cached().balancing;
        if let Some(cache) = host.used_page_cache() {
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
        stats.group_refusals = balancing.groups.iter().map(|(_, group)| group.counts().0).sum();
    }

    fn visit_vmstat<H: StackHost<Cache = Self>>(
        host: &H,
        visit: &mut dyn FnMut(&'static str, u64),
    ) -> bool {
        let cache = host.used_page_cache();
        cache.inspect(|cache| cache.visit_vmstat(visit)).is_some()
    }

    fn is_used<H: StackHost<Cache = Self>>(host: &H) -> bool {
        host.used_page_cache().is_some()
    }

    fn note_refusal<H: StackHost<Cache = Self>>(host: &H, frames: usize) {
        let Some(cache) = host.used_page_cache() else { return };
        let (counts, dirty) = (&host.cached().balancing.counts, cache.events().dirty());
        add(&counts.refused, 1);
        add(&counts.refused_dirty, u64::from(dirty >= frames as u64));
    }

    fn visit_locks<H: StackHost<Cache = Self>>(host: &H, visit: &mut Visit<'_>) {
        host.cached().balancing.visit_locks(visit);
        host.cached().pages.visit_locks(visit);
        if let Some(cache) = host.used_page_cache() {
            cache.visit_locks(visit);
        }
    }

    fn adopt_in_child(&self) {
        self.balancing.shrinkers.adopt_in_child();
        self.balancing.pressure.adopt_in_child();
    }

    fn validate<H: StackHost<Cache = Self>>(host: &H) -> Result<(), Broken> {
        host.used_page_cache().map_or(Ok(()), |cache| cache.validate())
    }

    fn pages_in_use<H: StackHost<Cache = Self>>(host: &H) -> u64 {
        host.used_page_cache().map_or(0, |cache| cache.descriptors_in_use())
    }

    fn frames_of_page<H: StackHost<Cache = Self>>(host: &H, page: u32) -> u64 {
        let bytes = host.used_page_cache().map_or(0, |cache| cache.bytes(PageNo(page)));
        (bytes / FRAME_BYTES) as u64
    }
}
