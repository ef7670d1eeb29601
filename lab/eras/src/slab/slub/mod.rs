//! `slub`: per-CPU slabs and free lists through the objects themselves (Linux 2.6.22 to 6.17).
//!
//! A CPU owns one slab per cache and has taken its free objects as a list: allocation takes the
//! head, freeing an object *of that slab* puts it back, both one restartable sequence. An object of
//! any other slab is put onto that slab's own free list: under a lock bit of the slab (`lock_word`,
//! before Linux 3.1), or by a compare-and-swap of its packed word (`page_word`). There is no array
//! in front: the policy is measured by how often frees hit the CPU's own slab.
//!
//! # The CPU's slab
//! The slot's cell holds three facts in two words, and every step changes one of them by one
//! committing store, after which the thread may find itself on another CPU:
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
//! The guard alone decides which thread owns `s`: the thread that stores it away owns `s`, no
//! matter what happened since it was read. Objects of a list count as in use in their own slabs and
//! may be of another slab than the guard's (a *fill* that came late), so a list is never trusted to
//! be of one slab: a thread that takes it whole sorts it. A store that fails changes nothing, and
//! then the thread gives what it has to the objects' own slab, which is always possible.
//!
//! # The places of a slab
//! ```text
//! new -> [cell] -> full, on no list -> [CPU's partial list] -> node's list -> given back
//!           ^          (its first free freezes it)  |              |
//!           +---------------------------------------+--------------+
//! ```
//! In brackets: frozen. Every slab is in one of these places, or in the hands of one thread.
//!
//! Without CPU partial lists (before Linux 3.2) a slab that was full comes onto its node's list.
//! Which locks a step takes, and which empty slabs a node keeps, is the version's own (`era`).
//!
//! Differences to the kernel: no fallback to a smaller order where memory is short (a cache's
//! geometry is fixed), and no preference for the list's head or tail when a slab is let go.
//!
//! # Files
//! Each uses only those to its left, and of each row only those above:
//!
//! ```text
//! order, state -> lock_word, page_word -> era    freelist    node -> cpu, cell -> tables
//! cache -> slow_path -> locked, lockless
//! alloc, free, stats, validate -> policy
//! ```
//!
//! Another version of the kernel's SLUB is one more file in `era`, an alias in `policy`, and a line
//! in the registry.

mod alloc;
mod cache;
mod cell;
mod cpu;
mod era;
mod free;
mod freelist;
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

pub use policy::{Slub2_6_29, Slub3_0, Slub3_1, Slub4_9};
