//! Policies of other eras of the Linux kernel, and registries of all policies by name.
//!
//! They implement the traits of `quarry-mm` and `quarry-cache` from outside: nothing there knows
//! them. A comparison chooses among them as it runs; a shared object, as it is built.
//!
//! ```text
//! slab    slab policies, the registry of them, and of the default
//! pages   policies of the per-CPU page lists, and one that is chosen by name
//! lru     policies of the LRU lists of cached pages, and one that is chosen by name
//! ```
//!
//! Nothing here allocates through the global allocator.
#![cfg_attr(not(any(test, quarry_model)), no_std)]

pub mod lru;
pub mod pages;
pub mod slab;
