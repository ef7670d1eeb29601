//! `sheaf-6.18`: the per-CPU sheaves of Linux 6.18, as the kernel has them.
//!
//! A *sheaf* is memory for `capacity` pointers to free objects, a number of each cache. A CPU has
//! two for each cache: `main`, which its fast path pops and pushes, and `spare`. Between CPUs and
//! slabs whole sheaves travel, through a *barn* for each node, which has lists of full and of empty
//! ones.
//!
//! | main is | it is exchanged with | when |
//! |---|---|---|
//! | empty | `spare` | `spare` has an object |
//! | | a full sheaf of the barn | the barn has one |
//! | | an empty sheaf, filled from slabs | else |
//! | full | an empty sheaf, which becomes `spare` | there is no `spare` |
//! | | `spare` | `spare` has room |
//! | | an empty sheaf of the barn | the barn has one, and fewer than 10 full ones |
//! | | `spare`, flushed to slabs | the barn has 10 full ones |
//! | | a new sheaf | else |
//!
//! # Where the objects of `main` are
//! `main` is the running CPU's array, whose room is exactly `capacity`, so that the fast path is
//! one sequence, like that of every other policy. The kernel exchanges pointers to sheaves; here
//! the pointers to objects move between the array and the sheaf that `main` is exchanged with,
//! which thereby becomes the other one: a full sheaf of the barn is emptied into the array, and
//! remains as an empty one. An exchange with the barn is one critical section, as in the kernel.
//!
//! # The owner of a sheaf
//! ```text
//! pool -> [hands of one task] -> spare of a CPU -> barn (full or empty) -> pool
//! ```
//! A sheaf is a value that cannot be copied, and no place drops one: its memory goes back to the
//! pool. `sheaves(cache) = spares + full + empty` while no thread is at work.
//!
//! # Files
//! Each uses only those to its left:
//!
//! ```text
//! capacity, late, sheaf -> barn, pool -> cache -> alloc, free, reclaim, validate -> policy
//! ```

mod alloc;
mod barn;
mod cache;
mod capacity;
mod free;
mod late;
mod policy;
mod pool;
mod reclaim;
mod sheaf;
mod validate;

pub use policy::KernelSheaf;
