//! What each mechanism does, by counters, with a clock that the tests set.

use core::cell::Cell;

std::thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

/// The time that the running test has set.
pub(super) fn now_ns() -> u64 {
    NOW_NS.get()
}
