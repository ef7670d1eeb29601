//! `slqb`: queues of objects per CPU, and remote queues between CPUs (SLQB, N. Piggin, January
//! 2009).
//!
//! A CPU has one list of free objects per cache; the objects may be of any slabs. An allocation
//! takes the head of the list, and a free puts an object in front, each in one restartable
//! sequence. A CPU whose list holds `hiwater` objects flushes a batch. Objects of its own slabs go
//! back into these slabs. It gathers objects of another CPU's slabs and brings them to that CPU in
//! batches; that CPU claims all of them in one step when its list is empty.
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
//! A thread may lose its CPU between any two steps. Each step below passes objects from one owner
//! to the next. Between steps the thread owns them, on whatever CPU it runs, and it can always put
//! them into their slabs or onto any list.
//!
//! | step | by | if the thread has come to another CPU |
//! |---|---|---|
//! | take or put one object | one sequence | the step is that of the CPU where the sequence ends |
//! | set the bound | `compare_store` of the guard, from 0 | nothing is stored |
//! | take the list | `compare_store` of the list, to 0 | nothing is stored; the free tries again |
//! | leave a list | `compare_store` of the list, from 0 | the list waits in the slot's `remote` |
//! | take from a slab | lock `partial` of its list | the slab is another CPU's: no harm |
//! | put into slabs | lock `partial` of their list | any thread may take the lock |
//! | gather | lock `outgoing` of the slot | the objects are gathered for the thread's former CPU |
//! | bring, claim | lock `remote` of the list | it leaves claimed objects to the slot, as above |
//! | drain a cell | all ones to the guard, 0 to the list | the drain owns the list |
//!
//! A guard names its slot, so a drain knows whose list it has taken. A thread never holds two of
//! the three locks, and none while it allocates or frees a slab.
//!
//! Differences from the kernel: slabs have no colours; a CPU's list has no tail, so a trim walks
//! the list; on a machine with several nodes the fast path of a free refuses every object, and the
//! slow path checks the node; if there is no memory for a new slab, slabs of other CPUs serve the
//! request; a shrink gives back everything.
//!
//! # Files
//! Files use only those to their left:
//!
//! ```text
//! sizes -> slab_word -> list -> tables -> cache -> free -> trim -> alloc ->
//! stats, validate -> policy
//! ```

mod alloc;
mod cache;
mod free;
mod list;
mod policy;
mod sizes;
mod slab_word;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod trim;
mod validate;

pub use policy::Slqb;
