//! Per-CPU slots: arrays and lists that the running CPU changes without a lock.
//!
//! A *slot* belongs to one CPU (or to a stripe of threads where restartable sequences are not to be
//! had). It holds one *cell* per cache, and a cell is used in one of two forms:
//!
//! * **array** (SLAB, sheaves): `word0 = {operations : 48 | top : 16}`, `word1 = {end : 16 |
//!   !begin : 16}`, `word3` = where the array lies; the objects are the slot's words `begin..top`.
//!   `operations` counts pushes and pops, so the one committing store also keeps the statistics.
//!   `begin` is complemented so that 0, which fresh memory holds and a drain stores, refuses pops
//!   as it refuses pushes: a sequence may see the header of an array that is just being opened
//!   beside its old bounds.
//! * **list** (SLUB, SLQB): `word0 = {head >> 4 : 44 | nr : 20}`, `word1` = a guard that a push
//!   must match (the slab whose objects the list holds; all ones while a drain stops the list),
//!   `word2`, `word3` = pops and pushes, attempts that were interrupted included.
//!
//! Each primitive has exactly one committing store. Whoever is preempted, migrated or hit by a
//! signal before that store starts again; afterwards the operation has happened.
//!
//! Backends that carry the same trait: `RseqSlots` (x86-64, with locked stripes for threads that
//! have no registration), [`LockedSlots`] (any CPU), [`VirtualSlots`] (a test or simulator says
//! which slot it is on) and, under `--cfg quarry_model`, `SteppedSlots` (sequences as lists of
//! steps that a model checker interrupts). What `RseqSlots` and `SteppedSlots` share, which is
//! everything but the sequences themselves, is in `sequenced`.

#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq))))]
mod assembly;
mod locked;
#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq))))]
mod registration;
mod room;
#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq))))]
mod rseq;
#[cfg(any(
    quarry_model,
    all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq)))
))]
mod sequenced;
mod slot;
#[cfg(quarry_model)]
mod stepped;

pub use locked::{ChooseSlot, DeclaredSlot, LockedSlots, ThreadStripe};
pub use room::Limits;
#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq))))]
pub use rseq::{RseqSlots, SequenceOffsets};
pub use slot::{
    ArrayId, LOOKED_AT, MAX_ARRAYS, SLOT_BYTES, SlotArea, SlotIndex, WIDE_OBJECTS, WIDE_PLACES,
};
#[cfg(quarry_model)]
pub use stepped::{PlantedBug, Stepped, SteppedSlots};

use crate::os::{Os, OsResult};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Slots that a test or a simulator chooses; see [`DeclaredSlot`].
pub type VirtualSlots = LockedSlots<DeclaredSlot>;

/// The default backend of this architecture.
#[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq))))]
pub type NativeSlots = RseqSlots;
/// The default backend of the model checker.
#[cfg(quarry_model)]
pub type NativeSlots = SteppedSlots;
/// The default backend of this architecture.
#[cfg(not(any(
    quarry_model,
    all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq)))
)))]
pub type NativeSlots = LockedSlots<ThreadStripe>;

/// Asks the kernel for what the slots of this process will need of it: once, at the start, for a
/// filter may kill for the question later.
pub fn ask() {
    #[cfg(all(target_arch = "x86_64", not(any(miri, quarry_model, quarry_no_rseq))))]
    registration::has_barrier();
}

/// An object of a cache: its address, aligned to at least 16 bytes.
pub type Object = NonNull<u8>;

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// The object is in the slot.
    Stored,
    /// No room, not prepared, stopped by a drain, guard mismatch, or no slot: take the slow path.
    Refused,
    /// There was room, but one of the [`LOOKED_AT`] objects on top (of a list: the head) is the
    /// same one: it was freed a moment ago already. Nothing changed.
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

/// What the slots have counted for one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListUse {
    /// Objects on the list now.
    pub level: u64,
    /// Pops so far, attempts that were interrupted and repeated included.
    pub pops: u64,
    /// Pushes so far, attempts that were interrupted and repeated included.
    pub pushes: u64,
}

/// The primitives over per-CPU slots.
///
/// # Safety
/// An object pushed is popped exactly once (or taken once by [`drain`](Self::drain)), unchanged;
/// nothing else is ever returned. Callers push only objects that nobody else uses, and give each
/// array objects of one cache only.
pub unsafe trait PerCpu: Sync + Sized {
    /// An instance without slots. Nothing but [`init`](Self::init) may be called on it: until that
    /// has succeeded it does not know where the running thread keeps its registration, and an
    /// operation would write over the thread's control block.
    const INERT: Self;

    /// Reserves slots for every CPU this process may run on. Does nothing when repeated.
    ///
    /// # Errors
    /// What the OS says to the reservation; `init` may then be tried again.
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

    /// Whether `object` seems to be among the [`LOOKED_AT`] on top of the running CPU's array, at a
    /// glance: see [`SlotArea::seems_on_top`].
    #[inline(always)]
    fn seems_on_top(&self, array: ArrayId, object: Object) -> bool {
        self.area().seems_on_top(self.current(), array, object)
    }

    /// [`pop`](Self::pop) for the slow path: serves a thread that the fast pop cannot serve at all.
    fn pop_unregistered(&self, _array: ArrayId) -> Option<Object> {
        None
    }

    /// [`push`](Self::push) for the slow path, as [`pop_unregistered`](Self::pop_unregistered).
    fn push_unregistered(&self, _array: ArrayId, _object: Object) -> Push {
        Push::Refused
    }

    /// Takes the top `out.len()` objects, all or none, as one operation that is not counted; an
    /// empty batch always succeeds. Nothing is said of `out` where it returns false. O(n).
    fn pop_batch(&self, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool;

    /// Puts `objects` on top in order (the last becomes the top), all or none, not counted; an
    /// empty batch always succeeds. O(n).
    fn push_batch(&self, array: ArrayId, objects: &[Object]) -> bool;

    /// Takes the head of the running CPU's list. O(1).
    ///
    /// # Safety
    /// The cell is used as a list, and the first word of each object on it is the next object.
    unsafe fn list_pop(&self, array: ArrayId) -> Option<Object>;

    /// Puts an object at the head of the running CPU's list if the cell's guard equals `guard`
    /// (not all ones) and the list has fewer than 2^20 - 1 objects. O(1).
    ///
    /// # Safety
    /// The cell is used as a list; the first word of `object` may be overwritten.
    unsafe fn list_push(&self, array: ArrayId, guard: u64, object: Object) -> Push;

    /// Stores `new` in `word` (0..4) of a cell of slot `slot` if the running CPU is `slot`'s and
    /// the word holds `expected`. Returns whether it did; never while a drain has the list stopped.
    /// For cells that are used as lists; `new` is not all ones. O(1).
    ///
    /// # Panics
    /// Where the slot or the word does not exist.
    fn compare_store(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        word: usize,
        expected: u64,
        new: u64,
    ) -> bool;

    /// Gives the running CPU's slot all the room for `array` that it may ever have in a narrow
    /// place. O(1), rare.
    ///
    /// # Errors
    /// Where the OS refuses memory for the slot; the slow path then serves.
    fn prepare(&self, array: ArrayId) -> OsResult<()> {
        while self.make_room(array, &Limits::NONE, &mut |_, _| {}) {}
        Ok(())
    }

    /// Gives the running CPU's slot room for `array`, or more of it, as far as `limits` go; where
    /// they are reached, takes it from arrays of the same slot that are not used, and their objects
    /// to `take`. Returns whether there is more room. A thread that changes its CPU meanwhile has
    /// got it for the one that it was on. `take` runs with the lock of the bounds held, as that of
    /// [`drain`](Self::drain). O(arrays + objects taken), no system call.
    fn make_room(
        &self,
        array: ArrayId,
        limits: &Limits,
        take: &mut dyn FnMut(ArrayId, &[Object]),
    ) -> bool;

    /// Moves the running CPU's array to a wide place, if it may have one, one is free, and `limits`
    /// allow it; it stays there until it is drained. Returns whether it moved; a thread that
    /// changes its CPU meanwhile may find that it did not. O(objects), no system call.
    fn widen_within(&self, array: ArrayId, limits: &Limits) -> bool;

    /// [`widen_within`](Self::widen_within) without limits.
    fn widen(&self, array: ArrayId) -> bool {
        self.widen_within(array, &Limits::NONE)
    }

    /// Takes all objects of `array` out of every slot and hands them to `take`, in pieces; as
    /// [`drain_where`](Self::drain_where).
    fn drain(&self, array: ArrayId, take: &mut dyn FnMut(&[Object])) -> bool {
        self.drain_where(&|_, other| other == array, &mut |_, objects| take(objects))
    }

    /// Takes all objects out of the arrays that `which` chooses, in whatever slots, and hands them
    /// to `take`, in pieces; takes their room as well, until somebody makes room again. Returns
    /// whether it reached every slot: where the kernel refuses the barrier (a seccomp filter that
    /// was installed after `init`) the slots of CPUs keep what they hold, and where the barrier has
    /// been [left to another thread](Self::leave_barrier_to) those of other CPUs.
    ///
    /// Slots are stopped by bounds that no sequence writes, and one barrier serves them all. `take`
    /// runs with the lock of the bounds held: it must not drain, prepare or define. That lock is
    /// held for one slot at a time. `which` always says the same. O(arrays * slots awake +
    /// objects), at most one membarrier, none where no array that `which` chooses has room.
    fn drain_where(
        &self,
        which: &dyn Fn(SlotIndex, ArrayId) -> bool,
        take: &mut dyn FnMut(ArrayId, &[Object]),
    ) -> bool;

    /// Takes the list of `array` out of every slot, with its guard and its length, and leaves both
    /// words 0. The objects hang together by their first words. Returns whether it reached every
    /// slot; `take` must not drain, prepare or define, both as for [`drain`](Self::drain).
    fn drain_lists(&self, array: ArrayId, take: &mut dyn FnMut(u64, Option<Object>, usize))
    -> bool;

    /// From now on only `thread` (a [thread pointer](crate::thread::thread_pointer)), or nobody,
    /// stops the sequences of other CPUs while the process has several threads, for that is a
    /// system call for which a filter may kill. Until the first call everybody may. Backends that
    /// make no such call ignore it.
    fn leave_barrier_to(&self, _thread: Option<usize>) {}

    /// Whether a drain by the calling thread reaches every slot, unless the kernel refuses. O(1).
    fn reaches_every_slot(&self) -> bool {
        true
    }

    /// Sum over all slots, read without stopping them.
    fn usage(&self, array: ArrayId) -> ArrayUse {
        self.area().usage(array)
    }

    /// Lets go, in the child of a fork, of slots that threads of the parent were about to pop from
    /// or push to. Nobody was in the middle of anything else when the parent forked.
    fn free_in_child(&self);
}
