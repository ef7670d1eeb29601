//! Suites over whole stacks: the slab policies of the product, the heap, failures of the system,
//! limits, threads. `lab/eras/tests/suites` runs some of them on other policies.
//!
//! Each suite compares the stack with a naive oracle and calls its `validate`. `PROPTEST_CASES`
//! sets the number of random sequences, `QUARRY_TEST_ROUNDS` multiplies the work of the threads,
//! and `QUARRY_TEST_SEED` repeats the random choices of a run that printed its seed.
#![cfg(not(quarry_model))]

/// Calls the macro `$callback` with the policies for which the suites of all policies run. A line
/// is `identifier: "name", Type;`.
macro_rules! slab_policies {
    ($callback:ident) => {
        $callback! {
            sheaf: "sheaf", quarry_mm::slab::Sheaf;
        }
    };
}

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
mod locks;
mod misuse;
mod moving;
mod no_cache;
mod nodes;
mod own_heaps;
mod page_cache;
mod page_cache_edges;
mod page_cache_threads;
mod pages;
mod policies;
mod populate;
mod profile;
mod reclaim;
mod record;
mod refused;
mod shards;
mod sparse;
mod support;
mod threads;
mod usage;
mod watch;
