//! The trait by which the process works for the page cache of its stack. A stack without page cache
//! has `()`, for which each function does nothing.

use crate::gate;
use crate::instance::{ProcessConfig, STACK};
use quarry_mm::stack::StackConfig;
use quarry_sys::locks::Visit;
use quarry_sys::own_stack;
use quarry_sys::primitive::{AtomicU32, futex};

pub(crate) type Cache = <ProcessConfig as StackConfig>::Cache;

pub(crate) trait Balancer {
    type Wait: Wait;

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

    /// Frees memory, or waits for the background thread to free memory: `beyond` bytes, or what
    /// can be done in `ns` nanoseconds. The caller may run functions of the program.
    fn approach(_beyond: usize, ns: u64) {
        let inside = gate::enter();
        own_stack::run(|| STACK.trim());
        drop(inside);
        static NOTHING: AtomicU32 = AtomicU32::new(0);
        futex::wait_at_most(&NOTHING, 0, ns);
    }

    /// Frees cached pages without calling functions of the program.
    fn reclaim_pages() {}

    fn visit_process_locks(_visit: &mut Visit<'_>) {}

    /// In the child of a fork: drops the work of the parent's background thread.
    fn forget_work() {}

    /// In the child of a fork: forgets the parent's threads, whose locks were released.
    fn forget_threads() {}
}

/// The wait of a request that has found no memory. Meanwhile the background thread may free memory
/// that the request may not: by functions of the program, and by writing dirty pages.
pub(crate) trait Wait {
    fn new(size: usize) -> Self;

    /// Waits for the end of a balance; returns whether the request should try again. Of many
    /// requests that fail in a row, only some wait.
    fn has_balanced(&mut self) -> bool;
}

impl Balancer for () {
    type Wait = NoWait;
}

pub(crate) struct NoWait;

impl Wait for NoWait {
    fn new(_size: usize) -> Self {
        Self
    }

    fn has_balanced(&mut self) -> bool {
        false
    }
}
