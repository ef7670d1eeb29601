//! Tests of each mechanism by its counters, on virtual CPUs, with a clock that the tests set; and a
//! model of an alien array.

#[cfg(not(quarry_model))]
mod arrays;
#[cfg(not(quarry_model))]
mod machine;
#[cfg(quarry_model)]
mod model_alien;
#[cfg(not(quarry_model))]
mod nodes;
#[cfg(not(quarry_model))]
mod reaper;

use core::cell::Cell;

std::thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

/// The time that the running test has set.
pub(super) fn now_ns() -> u64 {
    NOW_NS.get()
}

/// Sets the time.
#[cfg(not(quarry_model))]
fn set_now(now_ns: u64) {
    NOW_NS.set(now_ns);
}
