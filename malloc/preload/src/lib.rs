//! `libquarry.so`: the malloc ABI on top of the process-wide instance.
//!
//! The library exports only the ABI (`abi.txt` lists it, and a test compares). The standard part of
//! it is the crate's (`abi`), whose source this library contains: if it enabled a feature instead,
//! cargo would give the feature to every program that it builds beside the library.
//!
//! With the feature `full` it is `libquarry-full.so`, which also has the checks and the functions
//! of `quarry.h` for caches of objects, the page cache and the budget.
//!
//! The library is `no_std` and needs `panic = "abort"`. Cargo's test profile unwinds, so the
//! library is empty there: the tests use the shared object of the release profile.
#![cfg(panic = "abort")]
#![no_std]
#![expect(unreachable_pub, reason = "exported to C by their names")]

#[path = "../../quarry/src/abi/mod.rs"]
mod abi;
#[cfg(feature = "full")]
mod budget_api;
#[cfg(feature = "full")]
mod cache_api;
// A static program has no loader, and musl knows no RTLD_DEEPBIND.
#[cfg(all(target_env = "gnu", not(feature = "override")))]
#[path = "../../quarry/src/abi/dlopen.rs"]
mod dlopen;
#[cfg(feature = "full")]
mod group_api;
mod heap_api;
mod jemalloc_api;
mod jemalloc_bins;
mod namespaces;
#[cfg(feature = "full")]
mod occupancy_api;
#[cfg(feature = "full")]
mod own_heap_api;
#[cfg(feature = "full")]
mod page_cache_api;
mod profile_api;
mod runtime;
mod start;
mod tcmalloc_api;
