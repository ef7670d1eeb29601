//! The cache of a stack: a page cache, and the balance of the budget that it shares with the heap.

use super::balancing::Balancing;
use crate::lru::{LruPolicy, Splice};
use crate::page_cache::PageCache;

/// The page cache of a stack, and its balance. All zero bytes at first. `balancing` comes first: a
/// program that caches no page may still use the balance, and then touches only the start.
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
