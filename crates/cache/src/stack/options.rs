//! Options of a stack with a page cache.

use crate::lru::{LruOptions, LruPolicy, Splice};
use crate::page_cache::PageCacheOptions;

/// Options of the cache of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCachingOptions<P: LruPolicy = Splice> {
    /// Options of the lists of cached pages.
    pub lru: LruOptions<P>,
    /// Options of the page cache.
    pub pages: PageCacheOptions,
}
