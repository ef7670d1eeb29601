//! Per-CPU slots: arrays and lists that the running CPU changes without a lock.
//!
//! A *slot* belongs to one CPU (or to a stripe of threads where restartable sequences are not to be
//! had). It holds one *cell* per cache, and a cell is used in one of two forms:
//!
//! * **array** (SLAB, sheaves): `word0 = {operations : 48 | top : 16}`, `word1 = {end : 16 |
//!   begin : 16}`; the objects lie in the slot's words `begin..top`. `operations` counts pushes and
//!   pops, so the one committing store also keeps the statistics.
//! * **list** (SLUB, SLQB): `word0 = {head >> 4 : 44 | nr : 20}`, `word1` = a guard that a push
//!   must match (the slab whose objects the list holds), `word2`, `word3` = pops and pushes.
//!
//! Each primitive has exactly one committing store. Whoever is preempted, migrated or hit by a
//! signal before that store starts again; afterwards the operation has happened.
//!
//! Three backends carry the same trait: `RseqSlots` (x86-64, with locked stripes for threads
//! that have no registration), [`LockedSlots`] (any CPU) and [`VirtualSlots`] (a test or simulator
//! says which slot it is on).

mod locked;
#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq))))]
mod rseq;
mod slot;

pub use locked::{ChooseSlot, DeclaredSlot, LockedSlots, ThreadStripe};
#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq))))]
pub use rseq::RseqSlots;
pub use slot::{ArrayId, MAX_ARRAYS, SLOT_BYTES, SlotArea, SlotIndex};

use crate::os::{Os, OsResult};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Slots that a test or a simulator chooses; see [`DeclaredSlot`].
pub type VirtualSlots = LockedSlots<DeclaredSlot>;

/// The default backend of this architecture.
#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq))))]
pub type NativeSlots = RseqSlots;
/// The default backend of this architecture.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq)))))]
pub type NativeSlots = LockedSlots<ThreadStripe>;

/// An object of a cache: its address, aligned to at least 16 bytes.
pub type Object = NonNull<u8>;

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// The object is in the slot.
    Stored,
    /// No room, not prepared, stopped by a drain, guard mismatch, or no slot: take the slow path.
    Refused,
    /// The object on top is the same one: it was freed twice in a row. Nothing changed.
    Duplicate,
}

/// What a slot has counted for one array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayUse {
    /// Objects in the array now.
    pub level: u64,
    /// Single pushes and pops so far, batches not included.
    pub operations: u64,
}

/// The primitives over per-CPU slots.
///
/// # Safety
/// An object pushed is popped exactly once (or taken once by [`drain`](Self::drain)), unchanged;
/// nothing else is ever returned. Callers push only objects that nobody else uses, and give each
/// array objects of one cache only.
pub unsafe trait PerCpu: Sync + Sized {
    /// An instance without slots: every operation on it must be preceded by [`init`](Self::init).
    const INERT: Self;

    /// Reserves slots for every CPU this process may run on. Call once, before anything else.
    ///
    /// # Errors
    /// What the OS says to the reservation.
    fn init(&self, os: &'static dyn Os) -> OsResult<()>;

    /// The memory of the slots.
    fn area(&self) -> &SlotArea;

    /// The slot of the running CPU, a hint that may be stale when it returns: for choosing page
    /// lists and counters, which have locks of their own. Always below `area().slots()`.
    fn current(&self) -> SlotIndex;

    /// Takes the top object of the running CPU's array, or `None` (empty or no slot). O(1).
    fn pop(&self, array: ArrayId) -> Option<Object>;

    /// Puts an object on top of the running CPU's array. O(1).
    fn push(&self, array: ArrayId, object: Object) -> Push;

    /// [`pop`](Self::pop) for the slow path: serves a thread that the fast pop cannot serve at all.
    fn pop_unregistered(&self, _array: ArrayId) -> Option<Object> {
        None
    }

    /// [`push`](Self::push) for the slow path, as [`pop_unregistered`](Self::pop_unregistered).
    fn push_unregistered(&self, _array: ArrayId, _object: Object) -> Push {
        Push::Refused
    }

    /// Takes the top `out.len()` objects, all or none, as one operation. O(n).
    fn pop_batch(&self, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool;

    /// Puts `objects` on top in order (the last becomes the top), all or none. O(n).
    fn push_batch(&self, array: ArrayId, objects: &[Object]) -> bool;

    /// Takes the head of the running CPU's list. O(1).
    ///
    /// # Safety
    /// The cell is used as a list, and the first word of each object on it is the next object.
    unsafe fn list_pop(&self, array: ArrayId) -> Option<Object>;

    /// Puts an object at the head of the running CPU's list if the cell's guard equals `guard`.
    ///
    /// # Safety
    /// The cell is used as a list; the first word of `object` may be overwritten.
    unsafe fn list_push(&self, array: ArrayId, guard: u64, object: Object) -> Push;

    /// Stores `new` in `word` (0..4) of a cell of slot `slot` if the running CPU is `slot`'s and
    /// the word holds `expected`. Returns whether it did.
    fn compare_store(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        word: usize,
        expected: u64,
        new: u64,
    ) -> bool;

    /// Gives the running CPU's slot room for `array` if it has none yet. O(1), rare.
    ///
    /// # Errors
    /// Where the OS refuses memory for the slot; the slow path then serves.
    fn prepare(&self, array: ArrayId) -> OsResult<()>;

    /// Takes all objects of `array` out of every slot and hands them to `take`, in pieces.
    ///
    /// Slots are stopped by bounds that no sequence writes, one barrier serves them all, and they
    /// run again when their array has been emptied. Must not be called from `take`.
    fn drain(&self, array: ArrayId, take: &mut dyn FnMut(&[Object]));

    /// Takes the list of `array` out of every slot, with its guard and its length, and leaves both
    /// words 0. The objects hang together by their first words. Must not be called from `take`.
    fn drain_lists(&self, array: ArrayId, take: &mut dyn FnMut(u64, Option<Object>, usize));

    /// Sum over all slots, read without stopping them.
    fn usage(&self, array: ArrayId) -> ArrayUse {
        self.area().usage(array)
    }

    /// Takes every lock of the backend before `fork`.
    fn lock_for_fork(&self);

    /// Releases them on either side of `fork`.
    ///
    /// # Safety
    /// The calling thread took them by [`lock_for_fork`](Self::lock_for_fork).
    unsafe fn unlock_after_fork(&self);
}
