//! Per-CPU slots: arrays and lists that the running CPU changes without a lock.
//!
//! A *slot* belongs to one CPU (or to a stripe of threads without restartable sequences). It holds
//! one *cell* per cache, which has one of two forms:
//!
//! * **array** ([`Arrays`]; SLAB, sheaves): `word0 = {operations : 48 | top : 16}`,
//!   `word1 = {end : 16 | !begin : 16}`, `word3` = where the array lies; the objects are the slot's
//!   words `begin..top`. `operations` counts pushes and pops, so that the one committing store also
//!   counts. `begin` is complemented so that bounds of 0 (fresh memory, or stored by a drain)
//!   refuse pops as well as pushes: while an array is opened, a sequence may see the new header
//!   together with the old bounds.
//! * **list** ([`Lists`]; SLUB, SLQB): `word0 = {head >> 4 : 44 | nr : 20}`, `word1` = a guard. The
//!   guard either names the slab whose objects the list holds, and a push has to pass an equal
//!   value; or its lower half bounds the list's length. While a drain stops the list, the guard is
//!   all ones. `word2`, `word3` = pops and pushes, interrupted attempts included.
//!
//! Each primitive has exactly one committing store. A thread that is preempted, migrated or hit by
//! a signal before that store starts the operation again; after the store the operation is done.
//!
//! Readers use sequences too. A *walk* ([`PerCpu::walk`]) finds a leaf, by loads only, in a tree
//! that other tasks change under a lock. [`PerCpu::wait_for_walks`] waits until no walk is in a
//! node that was removed before the call.
//!
//! Backends of these traits: `RseqSlots` (x86-64 and aarch64, with locked stripes for threads that
//! have no registration), [`LockedSlots`] (any CPU), [`VirtualSlots`] (a test or simulator declares
//! its slot) and, under `--cfg quarry_model`, `SteppedSlots` (lists of steps that a model checker
//! interrupts). `sequenced` has the code that `RseqSlots` and `SteppedSlots` share.
//!
//! Order of the files, each using only those before it:
//! * `layout`, `object`, `word_tree`: a slot's layout; objects; trees for walks
//! * `area`, `room`, `place`: the memory of slots; the room of arrays, their opening and emptying
//! * `per_cpu`: the traits of a backend
//! * `stripes`, `locked`: a slot under its try-lock; slots that are only used under it
//! * `sequences`, `sequenced`: traits for restartable sequences, and the backend above them
//! * `own_area`: the registration of threads that the C library does not register
//! * `patience`: how often sequences start again
//! * `registration`: where the kernel keeps the rseq registration of the running thread
//! * `assembly`, `x86_64`: the sequences of x86-64; `aarch64`: those of aarch64; `rseq`: the calls
//! * `stepped`: the sequences of the model checker

mod area;
#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_sim, quarry_no_rseq))))]
mod assembly;
mod layout;
mod locked;
mod object;
#[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
mod own_area;
#[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
mod patience;
mod per_cpu;
mod place;
#[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
mod registration;
mod room;
#[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
mod rseq;
#[cfg(any(quarry_model, not(any(miri, quarry_sim, quarry_no_rseq))))]
mod sequenced;
#[cfg(any(quarry_model, not(any(miri, quarry_sim, quarry_no_rseq))))]
mod sequences;
#[cfg(quarry_model)]
mod stepped;
mod stripes;
mod word_tree;

pub use area::SlotArea;
pub use layout::{
    ArrayId, CellWord, LOOKED_AT, MAX_ARRAYS, SLOT_BYTES, SlotIndex, WIDE_OBJECTS, WIDE_PLACES,
};
pub use locked::{DeclaredSlot, LockedSlots};
pub use object::{ArrayUse, Object, Push, Take, TakeList, Which};
#[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
pub(crate) use own_area::{set_thread_word, thread_word};
pub use per_cpu::{Arrays, Lists, PerCpu};
#[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
pub use registration::{RseqSlots, SequenceOffsets};
pub use room::Limits;
#[cfg(quarry_model)]
pub use stepped::{PlantedBug, Stepped, SteppedSlots};
pub use stripes::{ChooseSlot, ThreadStripe};
pub use word_tree::WordTree;

/// Slots declared by a test or a simulator; see [`DeclaredSlot`].
pub type VirtualSlots = LockedSlots<DeclaredSlot>;

/// The default backend of this architecture.
#[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
pub type NativeSlots = RseqSlots;
/// The default backend of the model checker.
#[cfg(quarry_model)]
pub type NativeSlots = SteppedSlots;
/// The default backend of this architecture.
#[cfg(all(not(quarry_model), any(miri, quarry_sim, quarry_no_rseq)))]
pub type NativeSlots = LockedSlots<ThreadStripe>;

/// Registers the process for membarrier(2), which the slots need, and the running thread for rseq
/// where the C library has not. Called once, when the process starts, because a seccomp filter
/// installed later may kill for these calls.
pub fn ask() {
    #[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
    registration::ask();
}

/// Returns whether slots can be used: false in a shared object that a program has opened, if glibc
/// registers no threads and its thread-local storage is not at the same offset for all threads.
#[must_use]
pub fn has_place() -> bool {
    #[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
    return registration::has_place();
    #[cfg(any(miri, quarry_model, quarry_sim, quarry_no_rseq))]
    true
}

/// Registers a thread that the C library does not know, where it runs in storage that another such
/// thread may have had before it.
#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(any(miri, quarry_model, quarry_sim))))]
pub(crate) fn begin_bare_thread() {
    #[cfg(not(quarry_no_rseq))]
    registration::begin_bare_thread();
}

/// How many threads Quarry has registered for restartable sequences, because the C library had not,
/// and for how many the kernel refused that. O(1).
#[must_use]
pub fn registrations() -> (u32, u32) {
    #[cfg(not(any(miri, quarry_model, quarry_sim, quarry_no_rseq)))]
    return own_area::counts();
    #[cfg(any(miri, quarry_model, quarry_sim, quarry_no_rseq))]
    (0, 0)
}
