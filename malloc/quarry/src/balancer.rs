//! The trait through which the process balances the budget with its page cache. A stack without
//! page cache has `()`, for which each function but `approach` does nothing.

use crate::gate;
use crate::instance::{ProcessConfig, STACK};
use quarry_mm::stack::StackConfig;
#[cfg(feature = "heaps")]
use quarry_mm::zone::GroupId;
use quarry_sys::locks::Visit;
use quarry_sys::own_stack;
use quarry_sys::primitive::{AtomicU32, futex};

pub(crate) type Cache = <ProcessConfig as StackConfig>::Cache;

pub(crate) trait Balancer {
    /// The wait of a request that has found no memory, made of the request's bytes.
    type Wait: From<usize>;

    #[inline]
    fn is_due() -> bool {
        false
    }

    /// Requests a balance from the background thread, if there is one. `now`: without delay after a
    /// balance that failed, because the budget's limit has changed.
    fn want(_now: bool) {}

    /// Requests a balance before a request of `size` bytes that the budget has no room for. O(1).
    fn foresee(_size: usize) {}

    /// Balances the budget and writes dirty pages, if either is due. Only the background thread
    /// calls this, outside the gate, because it runs functions of the program.
    fn work() {}

    /// Frees up to `beyond` bytes, in the caller or by the background thread, and waits for at most
    /// `ns` nanoseconds. Called where callbacks of the program may run.
    fn approach(_beyond: usize, ns: u64) {
        let inside = gate::enter();
        own_stack::run(|| STACK.trim());
        drop(inside);
        static NOTHING: AtomicU32 = AtomicU32::new(0);
        futex::wait_at_most(&NOTHING, 0, ns);
    }

    /// Frees cached pages without calling functions of the program.
    fn reclaim_pages() {}

    /// Tells the callbacks for pressure that the system is short of memory, or is no longer.
    fn note_pressure(_is_pressed: bool) {}

    /// Frees an eighth of the cached pages and of what shrinkers have, in the background thread.
    fn give_way() {}

    /// Frees some cached pages of a group and its parts, inside the gate; returns how many frames.
    #[cfg(feature = "heaps")]
    fn reclaim_group(_group: GroupId) -> usize {
        0
    }

    fn visit_process_locks(_visit: &mut Visit<'_>) {}

    /// In the child of a fork, after all locks were released: drops the unfinished work of the
    /// parent's background thread, and ends what other threads of the parent had begun.
    fn forget_parent(_had_others: bool) {}

    /// Waits for the end of a balance; returns whether the request should try again. Meanwhile the
    /// background thread may free memory in ways closed to the request: by callbacks of the
    /// program, and by writing dirty pages. If many requests fail in a row, only some of them wait.
    fn has_balanced(_wait: &mut Self::Wait) -> bool {
        false
    }
}

impl Balancer for () {
    type Wait = usize;
}
