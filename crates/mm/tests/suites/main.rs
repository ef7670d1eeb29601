//! Suites over whole stacks: every slab policy, the heap, failures of the system, limits, threads.
//!
//! Each compares the stack with a naive oracle and has it validate itself. `PROPTEST_CASES` sets
//! the number of random sequences, `QUARRY_TEST_ROUNDS` multiplies the work of the threads, and
//! `QUARRY_TEST_SEED` repeats the random choices of a run that printed its seed.
#![cfg(not(quarry_model))]

mod budget;
mod budget_pages;
mod caches;
mod cpus;
mod deferral;
mod eviction;
mod failing;
mod footprint;
mod heap;
mod instruments;
mod limits;
mod linux_slab;
mod locks;
mod misuse;
mod moving;
mod no_cache;
mod nodes;
mod page_cache;
mod page_cache_edges;
mod page_cache_threads;
mod pages;
mod policies;
mod populate;
mod profile;
mod reclaim;
mod record;
mod registry;
mod sheaf_6_18;
mod slam;
mod slub;
mod slub_misuse;
mod sparse;
mod support;
mod threads;
mod usage;
mod watch;
