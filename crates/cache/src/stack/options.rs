//! Options of a stack with a page cache.

use crate::lru::LruOptions;
use crate::page_cache::PageCacheOptions;

/// Options of the cache of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCachingOptions {
    /// Options of the lists of cached pages.
    pub lru: LruOptions,
    /// Options of the page cache.
    pub pages: PageCacheOptions,
}
