//! The choices of a stack with a page cache.

use crate::lru::LruOptions;
use crate::page_cache::PageCacheOptions;

/// How the cache of a stack is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCachingOptions {
    /// Lists of cached pages.
    pub lru: LruOptions,
    /// The page cache.
    pub pages: PageCacheOptions,
}
