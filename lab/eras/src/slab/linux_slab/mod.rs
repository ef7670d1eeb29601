//! `slab`: arrays of free objects per CPU and per node in front of lists of slabs (SLAB of Linux
//! 2.6.3x, the other allocator of document 002).
//!
//! ```text
//! CPU's array (limit 120 to 1)  -- empty: a batch -->  the node's shared array (8 batches)
//!    oldest batch when full  --------------------->       |  empty          ^ full
//!                                                         v                 v
//! objects of another node                    lists: partial, free | full  (one list lock)
//!    --> alien array (12) of this node              ^       |  more free objects than free_limit
//!           whole, when full ----> home node -------+       v
//!                                                      page allocator
//! ```
//!
//! Allocation and free of an object of the CPU's own node are one restartable sequence each. A CPU
//! whose array is empty takes a batch under the list lock of its node, from the shared array or, if
//! that is empty, from slabs. A CPU whose array is full gives the *oldest* batch away. Every two
//! seconds a reaper takes what was not used since.
//!
//! Differences to the kernel:
//! * no colouring: the unused rest of a slab lies before its numbers and objects
//! * the descriptor of a slab lies outside of it, in a table of all frames; what a program can
//!   overwrite is sealed
//! * a slow path of a CPU reaps where the kernel has a timer, and the background thread empties the
//!   arrays of idle CPUs whole
//! * the arrays of CPUs get their memory when they are used first, and lose it when they are idle
//! * slabs are given back without the list lock
//!
//! # Files
//! Each uses only those to its left:
//!
//! ```text
//! tuning, estimate -> records -> slab -> shared, alien -> node -> tables -> cache -> reap ->
//! free -> alloc, stats, validate -> policy
//! ```

mod alien;
mod alloc;
mod cache;
mod estimate;
mod free;
mod node;
mod policy;
mod reap;
mod records;
mod shared;
mod slab;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod tuning;
mod validate;

pub use policy::LinuxSlab;
