//! `slqb`: queues of objects per CPU, and remote queues between CPUs (SLQB, N. Piggin, January
//! 2009).
//!
//! A CPU has a list of free objects of any slabs: allocation takes the head, a free puts it back,
//! both one restartable sequence, until the list holds `hiwater` objects. Then a batch leaves it.
//! Objects of the CPU's own slabs go back into these. The others are gathered for the CPU that
//! their slab belongs to, and brought to it a batch at a time; that CPU takes them over, all in one
//! step, when its list is empty.
//!
//! ```text
//!           CPU 0                                        CPU 1
//!   malloc / free                                  malloc / free
//!        |                                              |
//!   [ list, <= hiwater ] <----- claimed, if    [ list, <= hiwater ]
//!        |   ^                  `check` is set         |
//!  batch |   | one object            |                 | batch
//!        v   |                       |                 v
//!   [ own slabs ]            [ remote ] <------- [ outgoing ]   (to one list at a time)
//! ```
//!
//! # The owner of an object
//! A thread may lose its CPU between any two steps. Each step below moves objects from one owner to
//! the next; in between they are the thread's, on any CPU, and it can always get rid of them: into
//! their slabs, or to any list.
//!
//! | step | by | and if the thread lost its CPU since it looked |
//! |---|---|---|
//! | take or put one object | one sequence | it happens on the CPU that the sequence ends on |
//! | set the bound | `compare_store` of the guard, from 0 | nothing is stored |
//! | take the list | `compare_store` of the list, to 0 | nothing is stored; the free tries again |
//! | leave a list | `compare_store` of the list, from 0 | it waits in the slot's `remote` |
//! | take from a slab | lock `partial` of its list | the object is another CPU's: no harm |
//! | put into slabs | lock `partial` of their list | the lock is the list's, for any thread |
//! | gather | lock `outgoing` of the slot | they are gathered for the CPU that it was on |
//! | bring, claim | lock `remote` of the list | what was claimed is left to the slot: see above |
//! | drain a cell | all ones to the guard, 0 to the list | the drain owns the list |
//!
//! A guard names its slot, so that a drain knows whose list it has taken. The three locks are never
//! held together, and a thread holds none of them while it asks for a slab or gives one back.
//!
//! Differences to the kernel: no colours; a CPU's list has no tail, so a trim walks the list; on a
//! machine with several nodes the fast path of a free refuses, and the next path checks the node;
//! where there is no memory, other CPUs' slabs serve; a shrink gives back everything.
//!
//! # Files
//! Each uses only those to its left:
//!
//! ```text
//! sizes -> slab_word -> slabs, chain -> list -> tables -> cache -> free -> trim -> alloc ->
//! stats, validate -> policy
//! ```

mod alloc;
mod cache;
mod chain;
mod free;
mod list;
mod policy;
mod sizes;
mod slab_word;
mod slabs;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod trim;
mod validate;

pub use policy::Slqb;
