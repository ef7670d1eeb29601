//! `slam`: an allocator whose caches behave differently on each CPU, and change while they run.
//!
//! **The design is ours.** David Rientjes' SLAM was never published. His talks (2010 to 2013) tell
//! this much: a *mutable* allocator; a cache may behave differently on each CPU; its slow paths are
//! chosen by use and adapt in real time. Nothing else here is taken from it.
//!
//! In every mode a CPU's topmost objects lie in its array, and the fast path is the array's: one
//! sequence, the same in all modes. The mode of a (cache, CPU) decides which structure gets the
//! objects for which the array has no room.
//!
//! | mode | objects beyond the array go to | as | pays where |
//! |---|---|---|---|
//! | array | the barn of all CPUs, else their slabs | `sheaf` | little is missed |
//! | linked | the CPU's own *stock* | SLUB, SLQB | bursts exceed array and barn |
//! | remote | the *inbox* of the CPU that took them | SLQB | one CPU frees what another allocates |
//!
//! A stock is linked through its objects and has no bound of its own. An object is *taken* by the
//! CPU that allocates from its slab.
//!
//! The mode is a hint. Every mode uses up what others have left: a CPU whose array is empty takes
//! from its inbox, from its stock, from the barn, from the slabs. So nothing is drained when a mode
//! changes: a CPU does it by one store, and no other CPU is stopped or asked.
//!
//! Stock and inbox are the same structure ([`stock::Stock`]): one atomic word that names a chain of
//! *bundles*. A bundle is up to 16 objects whose addresses lie in the first of them
//! (`bundle.rs`). Bundles are pushed one chain at a time and taken all at once, so compare-and-swap
//! suffices, and a reclaim takes them from any CPU without a barrier.
//!
//! Owners of objects are guessed from a small table: the slot that last missed its array and got an
//! object of the slab (`owners.rs`). A wrong guess sends objects to a CPU that uses them anyway.
//!
//! Equations, with those of `sheaf` for arrays, barns and slabs:
//! * an object is in use, in one array, in one barn, in one bundle of one stock or inbox, or free
//!   in its slab;
//! * `bundles(stock) = bundles on its chain`, each of `bundle::size(stride)` objects of the cache;
//! * `limits.barns = sum of bytes announced by barns + sum over stocks of (bytes - unannounced)`.
//!
//! Files, each using only those to its left: `bundle -> stock -> traffic, owners -> tables -> cache
//! -> exchange -> reclaim, validate -> policy`.

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
