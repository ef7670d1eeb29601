//! A page cache and its balance, for users of the stack.

use super::caching::PageCaching;
use super::pressure::PressureEvents;
use super::shrinkers::Shrinkers;
use crate::lru::LruPolicy;
use crate::page_cache::index::{NODE_ALIGN, NODE_BYTES};
use crate::page_cache::{Basis, Host, PageCacheRef};
use quarry_mm::slab::{CacheOptions, CacheParams};
use quarry_mm::stack::StackHost;
use quarry_sys::os::OsResult;
use quarry_sys::own_stack;

impl<P: LruPolicy, S: StackHost<Cache = PageCaching<P>>> Host for S {
    type Stack = S;
    type Lru = P;

    #[inline(always)]
    fn stack(&self) -> &S {
        self
    }

    #[inline]
    fn basis(&self) -> &Basis {
        self.cached().pages.basis()
    }
}

impl<P: LruPolicy> PageCaching<P> {
    /// The page cache of a stack; makes its tables at the first call. O(1) after that.
    ///
    /// # Errors
    /// If the system refuses memory for the tables, or the stack can have no further slab cache.
    ///
    /// # Panics
    /// If the stack is not initialised.
    pub fn open<S: StackHost<Cache = Self>>(stack: &S) -> OsResult<PageCacheRef<'_, S>> {
        match Self::opened(stack) {
            Some(cache) => Ok(cache),
            None => own_stack::run(|| Self::build(stack)),
        }
    }

    /// The page cache of a stack, if it has been used. O(1).
    #[inline]
    pub fn opened<S: StackHost<Cache = Self>>(stack: &S) -> Option<PageCacheRef<'_, S>> {
        stack.cached().pages.opened(stack)
    }

    #[inline(never)]
    fn build<S: StackHost<Cache = Self>>(stack: &S) -> OsResult<PageCacheRef<'_, S>> {
        let options = stack.cache_options();
        stack.cached().pages.open(stack, &options.pages, options.lru, || {
            stack.pages().zones().budget().keep_reserve();
            let params = CacheParams { size: NODE_BYTES, align: NODE_ALIGN };
            stack.create_cache("radix_tree_node", &params, &CacheOptions::default())
        })
    }

    /// The shrinkers. The caller that registers the first one also calls
    /// [`Budget::keep_reserve`](quarry_mm::zone::Budget::keep_reserve).
    #[must_use]
    pub fn shrinkers(&self) -> &Shrinkers {
        &self.balancing.shrinkers
    }

    /// The level of the shortage of memory, and its callbacks.
    #[must_use]
    pub fn pressure(&self) -> &PressureEvents {
        &self.balancing.pressure
    }

    /// In the child of a fork: ends calls of callbacks that other threads had begun.
    pub fn adopt_in_child(&self) {
        self.balancing.shrinkers.adopt_in_child();
        self.balancing.pressure.adopt_in_child();
    }
}
