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
//! An allocation, or a free of an object of the CPU's own node, needs only one restartable sequence
//! on the CPU's array. A CPU whose array is empty takes a batch under its node's list lock, from
//! the shared array or, if that is empty, from slabs. A CPU whose array is full gives the *oldest*
//! batch away. Every two seconds a reaper takes objects that were not used since its last visit.
//!
//! Differences from the kernel:
//! * no colouring: the unused rest of a slab lies before its numbers and objects
//! * slabs' descriptors lie outside the slabs, in a table of all frames; the numbers of objects
//!   stay inside, where a program can overwrite them, and therefore are sealed
//! * a CPU's slow path reaps, not a timer as in the kernel; and the background thread empties the
//!   arrays of idle CPUs completely
//! * the array of a CPU gets memory at its first use and loses it when it is idle
//! * slabs are given back without the list lock
//!
//! # Files
//! Files use only those to their left:
//!
//! ```text
//! tuning, estimate -> slab -> shared, alien -> node -> tables -> cache -> reap ->
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
mod shared;
mod slab;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod tuning;
mod validate;

pub use policy::LinuxSlab;
