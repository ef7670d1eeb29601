//! `slub`: per-CPU slabs and free lists through the objects themselves (Linux 2.6.22 to 6.17).
//!
//! Each CPU has one slab per cache and holds that slab's free objects as a list. Allocation takes
//! the head of the list; freeing an object *of that slab* puts the object back. Both are one
//! restartable sequence. An object of another slab goes onto that slab's own free list: under a
//! lock bit of the slab (`lock_word`, before Linux 3.1), or by a compare-and-swap of the slab's
//! packed word (`page_word`). There is no array in front of the list, so the policy is measured by
//! how often frees hit the CPU's own slab.
//!
//! # The CPU's slab
//! The cell of a slot is two words, guard and list. Every step changes one word by one committing
//! store; after it the thread may be on another CPU.
//!
//! | guard | list | meaning |
//! |---|---|---|
//! | 0 | empty | no slab |
//! | s + 1 | any | slab `s` is frozen and belongs to this cell |
//! | 0 | objects | left by a slab that was let go, or by a store that came late; used up first |
//! | all ones | any | a drain has stopped the cell |
//!
//! | step | store | and then the thread |
//! |---|---|---|
//! | take an object | list: head -> next | has an object |
//! | put an object of `s` | list: head -> object, if guard = s + 1 | has nothing |
//! | install | guard: 0 -> s + 1 | no longer owns `s`; still has the objects it took from `s` |
//! | fill | list: 0 -> objects | has nothing |
//! | let go | guard: s + 1 -> 0 | owns `s`, frozen |
//! | drain | guard: -> all ones -> 0, list: -> 0 | owns `s` and the list |
//!
//! Only the guard decides which thread owns `s`: a thread that replaces the guard owns `s`,
//! whatever happened since that thread read the guard. Objects on a cell's list count as in use in
//! their slabs. After a late *fill* they may belong to another slab than the guard's, so a thread
//! that takes the whole list sorts it by slab. A store that fails changes nothing; the thread then
//! frees its objects into their own slab, which is always possible.
//!
//! # The places of a slab
//! ```text
//! new -> [cell] -> full, on no list -> [CPU's partial list] -> node's list -> given back
//!           ^          (its first free freezes it)  |              |
//!           +---------------------------------------+--------------+
//! ```
//! Places in brackets hold frozen slabs. Every slab is in one of these places or owned by one
//! thread.
//!
//! Without CPU partial lists (before Linux 3.2) a slab that was full goes onto its node's list. The
//! version (`era`) decides which locks a step takes and which empty slabs a node keeps.
//!
//! Differences from the kernel: a cache's geometry is fixed, so a slab never has a smaller order
//! when memory is short; and a slab that a CPU lets go always goes to the tail of the node's list.
//!
//! # Files
//! Files use only those to their left, and within a row only those above:
//!
//! ```text
//! order, state -> lock_word, page_word -> era    node -> cpu -> tables
//! cache -> slow_path -> locked, lockless
//! alloc, free, stats, validate -> policy, below
//! ```
//!
//! `below` has the slabs under the sheaves of Linux 7.0: there no CPU has a slab or a partial list.
//!
//! Another version of SLUB needs a file in `era`, an alias in `policy` and a line in the registry.

mod alloc;
mod below;
mod cache;
mod cpu;
mod era;
mod free;
mod lock_word;
mod locked;
mod lockless;
mod node;
mod order;
mod page_word;
mod policy;
mod slow_path;
mod state;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod validate;

pub use below::Sheaf7_0;
pub use policy::{Slub2_6_29, Slub3_0, Slub3_1, Slub4_9};
