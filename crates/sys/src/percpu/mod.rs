//! Per-CPU slots: arrays and lists that the running CPU changes without a lock.
//!
//! A *slot* belongs to one CPU (or to a stripe of threads without restartable
//! sequences). It holds one *cell* per cache, and a cell is used in one of two forms:
//!
//! * **array** ([`Arrays`]; SLAB, sheaves): `word0 = {operations : 48 | top : 16}`, `word1 =
//!   {end : 16 | !begin : 16}`, `word3` = where the array lies; the objects are the slot's words
//!   `begin..top`. `operations` counts pushes and pops, so the one committing store also keeps the
//!   statistics. `begin` is complemented so that 0, which fresh memory holds and a drain stores,
//!   refuses pops as it refuses pushes: a sequence may see the header of an array that is just
//!   being opened beside its old bounds.
//! * **list** ([`Lists`]; SLUB, SLQB): `word0 = {head >> 4 : 44 | nr : 20}`, `word1` = a guard that
//!   a push must match (the slab whose objects the list holds) or whose lower half bounds the list;
//!   all ones while a drain stops the list. `word2`, `word3` = pops and pushes, attempts that were
//!   interrupted included.
//!
//! Each primitive has exactly one committing store. A thread that is preempted, migrated or hit by
//! a signal before that store starts again; afterwards the operation has happened.
//!
//! Sequences serve readers too: a *walk* ([`PerCpu::walk`]) finds a leaf in a tree of words that
//! others change under a lock, by loads only, and [`PerCpu::wait_for_walks`] waits until no walk
//! is in a node that the tree has lost.
//!
//! Backends that carry the same traits: `RseqSlots` (x86-64 and aarch64, with locked stripes for
//! threads that have no registration), [`LockedSlots`] (any CPU), [`VirtualSlots`] (a test or
//! simulator says which slot it is on) and, under `--cfg quarry_model`, `SteppedSlots` (sequences
//! as lists of steps that a model checker interrupts). Everything that `RseqSlots` and
//! `SteppedSlots` share, all but the sequences themselves, is in `sequenced`.
//!
//! Order of the files, each using only those before it:
//! * `object`, `limits`, `layout`, `word_tree`: objects, how much room they may take, where a slot
//!   has what; trees that sequences walk
//! * `area`, `room`, `place`, `usage`: the memory of all slots; how much room arrays have; opening,
//!   moving and emptying them; figures
//! * `per_cpu`: the traits of a backend
//! * `stripes`, `locked`: slots under a try-lock each
//! * `sequences`, `sequenced`: traits for restartable sequences, and the backend above them
//! * `registration`: where the running thread is registered
//! * `assembly`, `rseq`: the sequences of x86-64; `aarch64`: those of aarch64
//! * `stepped`: those of the model checker

#[cfg(all(target_arch = "aarch64", not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))))]
mod aarch64;
mod area;
#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))))]
mod assembly;
mod layout;
mod limits;
mod locked;
mod object;
mod per_cpu;
mod place;
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))
))]
mod registration;
mod room;
#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))))]
mod rseq;
#[cfg(any(
    quarry_model,
    all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))
    )
))]
mod sequenced;
#[cfg(any(
    quarry_model,
    all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))
    )
))]
mod sequences;
#[cfg(quarry_model)]
mod stepped;
mod stripes;
mod usage;
mod word_tree;

pub use area::SlotArea;
pub use layout::{
    ArrayId, LOOKED_AT, MAX_ARRAYS, SLOT_BYTES, SlotIndex, WIDE_OBJECTS, WIDE_PLACES,
};
pub use limits::Limits;
pub use locked::{DeclaredSlot, LockedSlots};
pub use object::{ArrayUse, ListUse, Object, Push};
pub use per_cpu::{Arrays, Lists, PerCpu};
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))
))]
pub use registration::{RseqSlots, SequenceOffsets};
#[cfg(quarry_model)]
pub use stepped::{PlantedBug, Stepped, SteppedSlots};
pub use stripes::{ChooseSlot, ThreadStripe};
pub use word_tree::WordTree;

/// Slots that a test or a simulator chooses; see [`DeclaredSlot`].
pub type VirtualSlots = LockedSlots<DeclaredSlot>;

/// The default backend of this architecture.
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))
))]
pub type NativeSlots = RseqSlots;
/// The default backend of the model checker.
#[cfg(quarry_model)]
pub type NativeSlots = SteppedSlots;
/// The default backend of this architecture.
#[cfg(not(any(
    quarry_model,
    all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))
    )
)))]
pub type NativeSlots = LockedSlots<ThreadStripe>;

/// Asks the kernel for what the slots of this process will need of it: once, at the start, because
/// a filter of system calls may kill for the question later.
pub fn ask() {
    #[cfg(all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))
    ))]
    registration::has_barrier();
}
