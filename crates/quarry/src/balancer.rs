//! The work of the process for the cache of its stack, as functions of the cache's type; for `()`
//! they do nothing.

use crate::instance::ProcessConfig;
use quarry_mm::stack::StackConfig;
use quarry_sys::locks::Visit;

/// The cache of the stack of the process.
pub(crate) type Cache = <ProcessConfig as StackConfig>::Cache;

/// The balance of the budget between the heap and a cache. Each function has a body for a cache
/// that holds nothing.
pub(crate) trait Balancer {
    /// The wait of a request for memory.
    type Wait: Wait;

    /// Returns whether a balance is due. O(1).
    #[inline]
    fn is_due() -> bool {
        false
    }

    /// Requests a balance from the background thread, if there is one.
    fn want() {}

    /// Like [`want`](Self::want), but at once, because the limit has changed.
    fn want_now() {}

    /// Balances the budget and writes dirty pages, if either is due. Only the background thread
    /// calls this, outside the gate, because it runs functions of the program.
    fn work() {}

    /// Frees cached pages without calling functions of the program.
    fn reclaim_pages() {}

    /// Returns whether the cache has been used. O(1).
    fn is_used() -> bool {
        false
    }

    /// Visits the locks that the process has for the cache.
    fn visit_process_locks(_visit: &mut Visit<'_>) {}

    /// In the child of a fork: drops the work of the parent's thread.
    fn forget_work() {}

    /// In the child of a fork, after the locks of the parent's threads were released.
    fn forget_threads() {}
}

/// A request that has found no memory, and waits because the background thread may free what the
/// request may not: by functions of the program, and by writing dirty pages.
pub(crate) trait Wait {
    /// For a request of `size` bytes, which has not waited yet.
    fn new(size: usize) -> Self;

    /// Waits until another balance has ended; returns whether the request should try again. Of many
    /// requests that fail in a row, only some wait.
    fn has_balanced(&mut self) -> bool;
}

impl Balancer for () {
    type Wait = NoWait;
}

/// Nothing is balanced, so no request waits.
pub(crate) struct NoWait;

impl Wait for NoWait {
    fn new(_size: usize) -> Self {
        Self
    }

    fn has_balanced(&mut self) -> bool {
        false
    }
}
