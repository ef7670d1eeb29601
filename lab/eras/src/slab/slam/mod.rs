//! `slam`: a policy whose caches may behave differently on each CPU, and change while they run.
//!
//! **The design is ours.** David Rientjes' SLAM was never published. From his talks (2010 to 2013)
//! we have only this: the allocator is *mutable*, a cache may behave differently on each CPU, and
//! its slow paths adapt to its use in real time.
//!
//! In every mode the fast path uses the CPU's array, by the same sequence. Each cache has a mode on
//! each CPU. The mode decides where objects go if the array has no room.
//!
//! | mode | objects beyond the array go to | as | pays where |
//! |---|---|---|---|
//! | array | the barn of all CPUs, else their slabs | `sheaf` | misses are rare |
//! | linked | the CPU's own *stock* | SLUB, SLQB | bursts exceed array and barn |
//! | remote | the *inbox* of the CPU that took them | SLQB | one CPU frees what another allocates |
//!
//! The objects of a stock are linked through themselves, and a stock has no bound of its own. A CPU
//! has *taken* an object if that CPU got it from the object's slab.
//!
//! In every mode a CPU whose array is empty takes from its inbox, its stock, the barn and the
//! slabs, in this order. So a CPU changes its mode by one store, and drains nothing.
//!
//! Stock and inbox are the same structure, [`stock::Stock`]: one atomic word that names a chain of
//! *bundles*, each of up to 16 objects (`bundle.rs`). A chain is pushed and taken whole, so
//! compare-and-swap suffices, and a reclaim takes the chain of any CPU without a barrier.
//!
//! A small table guesses the owner of an object: the slot that last got an object of its slab by a
//! miss (`owners.rs`). After a wrong guess the object goes to a CPU that also uses this cache.
//!
//! Equations, with those of `sheaf` for arrays, barns and slabs:
//! * an object is in exactly one place: in use, in an array, in a barn, in a bundle of a stock or
//!   inbox, or free in its slab;
//! * `bundles(stock) = bundles on its chain`, each of `bundle::size(stride)` objects of the cache;
//! * `limits.barns = sum of bytes announced by barns + sum over stocks of (bytes - unannounced)`.
//!
//! Each file uses only files to its left: `bundle -> stock -> traffic, owners -> tables -> cache ->
//! exchange -> reclaim, validate -> policy`.

mod bundle;
mod cache;
mod exchange;
mod owners;
mod policy;
mod reclaim;
mod stock;
mod tables;
mod traffic;
mod validate;

pub use cache::Slam;

/// A cache of objects of this many bytes, in no stack.
#[cfg(all(test, not(quarry_model)))]
fn unused_cache(bytes: usize) -> quarry_mm::slab::Cache {
    use quarry_mm::slab::{Cache, CacheId, CacheOptions, CacheParams, Identity, SlabLayout};
    Cache::new(
        Identity { id: CacheId::new(1), generation: 1, is_reused: false },
        "test",
        (&CacheParams { size: bytes, align: bytes }, &CacheOptions::default()),
        false,
        |_| SlabLayout { order: quarry_mm::frame::Order::new(2), header_bytes: 0 },
    )
    .expect("small enough")
}
