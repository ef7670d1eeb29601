//! The traits of restartable sequences, below the backend `sequenced`.

use super::area::SlotArea;
use super::layout::{ArrayId, CellWord};
use super::object::{Object, Push};
use super::word_tree::WordTree;
use core::mem::MaybeUninit;

/// The guard that stops every push to, pop from and `compare_store` on a list.
pub(super) const STOPPED_LIST: u64 = u64::MAX;

/// The CPUs, as sequences see them: the slot of the running thread, and a barrier for all threads.
///
/// # Safety
/// After `barrier` has returned true, no sequence that loaded bounds, a guard or a word of a tree
/// before the call still runs; where `is_alone` returns true, no other thread runs one.
pub unsafe trait Cpus: Sync {
    /// The value before `start` is called.
    const INERT: Self;

    /// Prepares the process. Returns whether sequences run; if not, every operation refuses.
    fn start(&self) -> bool;

    /// Number of slots for CPUs: the system's exclusive upper bound of CPU numbers.
    fn slots(&self) -> u32;

    /// An exclusive upper bound of CPU numbers from a source that no container can forge.
    fn numbers(&self) -> u32 {
        self.slots()
    }

    /// Returns whether the running thread can use sequences now.
    fn registered(&self) -> bool;

    /// Called by slow paths of a thread that cannot use sequences: lets it use them from now on, if
    /// that is possible. Returns whether it can.
    fn enroll(&self) -> bool {
        false
    }

    /// The slot of the running CPU; any number if the thread is not registered.
    fn slot(&self) -> u32;

    /// Restarts every running sequence. Returns false if the kernel refuses.
    fn barrier(&self) -> bool;

    /// Returns whether the calling thread is certainly the only one that can run sequences.
    fn is_alone(&self) -> bool;

    /// Called after a sequence of a slow path. Returns how many sequences of the running thread,
    /// since the last call, left because they had been aborted too often. If this one `has_ended`
    /// as it should, the next ones may start again as often as ever.
    fn settle(&self, _has_ended: bool) -> u64 {
        0
    }

    /// Returns whether the running thread's next sequences leave as soon as they are aborted.
    fn is_impatient(&self) -> bool {
        false
    }

    /// Returns whether the bug of this name is planted.
    fn reads_owner_once(&self) -> bool {
        false
    }
}

/// The restartable sequences of an architecture (or of the model checker).
///
/// # Safety
/// Each operation does what the operation of the same name of [`Arrays`](super::Arrays),
/// [`Lists`](super::Lists) or [`PerCpu`](super::PerCpu) promises, for the running CPU's slot, by
/// one committing store, or restarts; `walk` only loads, and commits nothing. Each other operation
/// loads bounds (or guard) before the header. Each refuses a closed cell, a stopped list, a thread
/// without a registration, and to restart more often than some tens of times.
///
/// The caller promises what the operation of that name in those traits requires, and that a batch
/// has 1..=0xffff objects; in `compare_store`, that the slot and the word exist.
pub unsafe trait Sequences: Cpus {
    fn pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object>;

    fn push(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push;

    fn pop_batch(&self, area: &SlotArea, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool;

    fn push_batch(&self, area: &SlotArea, array: ArrayId, objects: &[Object]) -> bool;

    unsafe fn list_pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object>;

    unsafe fn list_push(&self, area: &SlotArea, array: ArrayId, guard: u64, object: Object)
    -> Push;

    unsafe fn list_push_below(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push;

    fn compare_store(&self, area: &SlotArea, at: CellWord, expected: u64, new: u64) -> bool;

    unsafe fn walk(&self, area: &SlotArea, tree: &WordTree, index: u64) -> u64;
}
