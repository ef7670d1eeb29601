//! `libquarry.so`: the malloc ABI on top of the process-wide instance.
//!
//! The library exports only the ABI (`abi.txt` lists it, and a test compares). `malloc` and `free`
//! consist of their fast paths (`fast_path`) and a call of a cold function, which keeps `errno`.
//!
//! With the feature `full` it is `libquarry-full.so`, which also has the checks and the functions
//! of `quarry.h` for caches of objects, the page cache and the budget.
//!
//! The library is `no_std` and needs `panic = "abort"`. Cargo's test profile unwinds, so the
//! library is empty there: the tests use the shared object of the release profile.
#![cfg(panic = "abort")]
#![no_std]
#![expect(unreachable_pub, reason = "exported to C by their names")]

#[cfg(feature = "full")]
mod budget_api;
#[cfg(feature = "full")]
mod cache_api;
mod cxx;
mod dlopen;
#[cfg_attr(
    all(target_arch = "x86_64", not(any(quarry_portable, quarry_no_rseq))),
    path = "fast_path/sequence.rs"
)]
#[cfg_attr(
    not(all(target_arch = "x86_64", not(any(quarry_portable, quarry_no_rseq)))),
    path = "fast_path/portable.rs"
)]
mod fast_path;
mod front;
mod glibc_names;
mod heap_api;
mod info;
mod libc_malloc;
mod malloc;
mod namespaces;
#[cfg(feature = "full")]
mod occupancy_api;
#[cfg(feature = "full")]
mod page_cache_api;
mod profile_api;
mod runtime;
mod start;
