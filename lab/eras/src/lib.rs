//! Policies of other eras of the Linux kernel, and registries of all policies by name.
//!
//! The policies implement traits of `quarry-mm` and `quarry-cache`; these crates do not refer to
//! this one. A comparison chooses a policy while it runs; a shared object is built with one policy.
//!
//! ```text
//! slab      slab policies, and the registry of these and of the one in `quarry-mm`
//! pages     policies of the per-CPU page lists, and one that is chosen by name
//! lru       policies of the LRU lists of cached pages, and one that is chosen by name
//! registry  a policy with its name, for the registries of pages and lru
//! ```
//!
//! No code here allocates through the global allocator.
#![cfg_attr(not(any(test, quarry_model)), no_std)]

/// A list for people: `a, b or c`.
macro_rules! one_of {
    ($only:literal) => { $only };
    ($one:literal $other:literal) => { concat!($one, " or ", $other) };
    ($one:literal $($more:literal)+) => { concat!($one, ", ", one_of!($($more)+)) };
}

pub mod lru;
pub mod pages;
mod registry;
pub mod slab;

pub use registry::Registered;
