//! `sheaf-6.18` and `sheaf-7.0`: the per-CPU sheaves of Linux 6.18 and 7.0, as the kernel has them.
//!
//! A *sheaf* is memory for `capacity` pointers to free objects; each cache has its own `capacity`.
//! A CPU has two sheaves for each cache: `main`, which the fast path pops and pushes, and `spare`.
//! Full and empty sheaves travel between CPUs and slabs through the *barn* of each node.
//!
//! | main is | it is exchanged with | when |
//! |---|---|---|
//! | empty | `spare` | `spare` has an object |
//! | | a full sheaf of the barn | the barn has one |
//! | | an empty sheaf, filled from slabs | the barn has no full sheaf |
//! | full | an empty sheaf, which becomes `spare` | there is no `spare` |
//! | | `spare` | `spare` has room |
//! | | an empty sheaf of the barn | the barn has one, and fewer than 10 full sheaves |
//! | | `spare`, flushed to slabs | the barn has 10 full sheaves |
//! | | a new sheaf | the barn has no empty sheaf |
//!
//! # Where the objects of `main` are
//! `main` is the running CPU's array with a room of exactly `capacity`, so the fast path is one
//! sequence, as under every other policy. The kernel exchanges pointers to sheaves. Here the
//! pointers to objects move between the array and the other sheaf: a full sheaf of the barn is
//! emptied into the array and stays in the barn as an empty one. An exchange with the barn is one
//! critical section, as in the kernel.
//!
//! # Versions
//! A version is a type that implements [`Below`]: the number of objects in a sheaf, and the slabs
//! below. Those of 7.0 are in `slub/below.rs`.
//!
//! # The owner of a sheaf
//! ```text
//! pool -> [hands of one task] -> spare of a CPU -> barn (full or empty) -> pool
//! ```
//! A sheaf is a value that cannot be copied, and no code drops it: its memory goes back to the
//! pool. `sheaves(cache) = spares + full + empty` while no thread uses the cache.
//!
//! # Files
//! Files use only those to their left:
//!
//! ```text
//! capacity -> below    sheaf -> barn, pool -> cache -> alloc, free -> policy
//! ```

mod alloc;
mod barn;
mod below;
mod cache;
mod capacity;
mod free;
mod policy;
mod pool;
mod sheaf;

pub(super) use below::Below;
pub(super) use capacity::of_7_0;
pub use policy::KernelSheaf;
