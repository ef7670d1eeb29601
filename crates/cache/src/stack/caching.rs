//! A page cache and the balance of the budget that it shares with the heap: the cache of a stack
//! that has one.

use super::balancing::Balancing;
use crate::lru::{LruPolicy, Splice};
use crate::page_cache::PageCache;

/// See the module; all zero bytes at first. The figures of [`CachingStack`](super::CachingStack)
/// come first, because a program may use them without a cached page.
#[repr(C)]
pub struct PageCaching<P: LruPolicy = Splice> {
    pub(super) balancing: Balancing,
    pub(super) pages: PageCache<P>,
}

impl<P: LruPolicy> PageCaching<P> {
    pub(super) const fn new() -> Self {
        Self { balancing: Balancing::new(), pages: PageCache::new() }
    }
}
