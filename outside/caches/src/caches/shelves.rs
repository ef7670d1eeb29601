//! Caches of other crates whose values are pages: `Arc<Page>`, or `Box<Page>` if an entry pins its
//! page. All three have the same hasher, and a weigher that returns 4,096 bytes.

use super::PageCache;
use crate::page::{Key, PAGE_BYTES, Page, Reading};
use foldhash::fast::RandomState;
use std::sync::Arc;

fn filled(fill: impl FnOnce(&Page)) -> Arc<Page> {
    let page = Arc::new(Page::zeroed());
    fill(&page);
    page
}

fn bytes(capacity: u32) -> u64 {
    u64::from(capacity) * PAGE_BYTES as u64
}

#[derive(Clone)]
struct Bytes;

impl quick_cache::Weighter<Key, Arc<Page>> for Bytes {
    fn weight(&self, _: &Key, _: &Arc<Page>) -> u64 {
        PAGE_BYTES as u64
    }
}

/// quick_cache with its default options.
pub struct QuickCache(quick_cache::sync::Cache<Key, Arc<Page>, Bytes, RandomState>);

impl QuickCache {
    /// A cache of `capacity` pages.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self(quick_cache::sync::Cache::with(
            capacity as usize,
            bytes(capacity),
            Bytes,
            RandomState::default(),
            quick_cache::sync::DefaultLifecycle::default(),
        ))
    }
}

impl PageCache for QuickCache {
    #[inline(always)]
    fn get(&self, key: Key, reading: Reading) -> Option<u64> {
        self.0.get(&key).map(|page| page.read(key, reading))
    }

    fn insert(&self, key: Key, fill: impl FnOnce(&Page)) -> bool {
        self.0.insert(key, filled(fill));
        true
    }
}

/// moka, with the fast hasher.
pub struct Moka(moka::sync::Cache<Key, Arc<Page>, RandomState>);

impl Moka {
    /// A cache of `capacity` pages.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let builder = moka::sync::Cache::builder()
            .max_capacity(bytes(capacity))
            .initial_capacity(capacity as usize)
            .weigher(|_: &Key, _: &Arc<Page>| PAGE_BYTES as u32);
        Self(builder.build_with_hasher(RandomState::default()))
    }

    #[cfg(test)]
    pub(super) fn settle(&self) {
        self.0.run_pending_tasks();
    }
}

impl PageCache for Moka {
    #[inline(always)]
    fn get(&self, key: Key, reading: Reading) -> Option<u64> {
        self.0.get(&key).map(|page| page.read(key, reading))
    }

    fn insert(&self, key: Key, fill: impl FnOnce(&Page)) -> bool {
        self.0.insert(key, filled(fill));
        true
    }
}

/// foyer's cache in memory, with the fast hasher. Its entries pin their pages, which need no `Arc`.
pub struct Foyer(foyer_memory::Cache<Key, Owned, RandomState>);

struct Owned(Box<Page>);

impl Foyer {
    /// A cache of `capacity` pages with S3-FIFO. In foyer's default, LRU, a hit locks exclusively.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let builder = foyer_memory::CacheBuilder::new(bytes(capacity) as usize)
            .with_eviction_config(foyer_memory::S3FifoConfig::default())
            .with_hash_builder(RandomState::default())
            .with_weighter(|_: &Key, _: &Owned| PAGE_BYTES);
        Self(builder.build())
    }
}

impl PageCache for Foyer {
    #[inline(always)]
    fn get(&self, key: Key, reading: Reading) -> Option<u64> {
        self.0.get(&key).map(|entry| entry.value().0.read(key, reading))
    }

    fn insert(&self, key: Key, fill: impl FnOnce(&Page)) -> bool {
        let page = Box::new(Page::zeroed());
        fill(&page);
        self.0.insert(key, Owned(page));
        true
    }
}
