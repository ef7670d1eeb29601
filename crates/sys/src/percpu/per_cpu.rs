//! The traits of a backend of per-CPU slots: one for the slots themselves, and one for each of the
//! two forms in which a cell is used. A policy asks for the forms that it uses.

use super::area::SlotArea;
use super::layout::{ArrayId, SlotIndex};
use super::limits::Limits;
use super::object::{ArrayUse, Object, Push};
use super::word_tree::WordTree;
use crate::locks::Visit;
use crate::os::{Os, OsResult};
use core::mem::MaybeUninit;

/// Slots of CPUs, whatever their cells are used for.
///
/// # Safety
/// [`area`](Self::area) is the same at every call, and once [`init`](Self::init) has succeeded,
/// [`current`](Self::current) is below the number of its slots.
pub unsafe trait PerCpu: Sync + Sized {
    /// An instance without slots. Nothing but [`init`](Self::init) may be called on it: until that
    /// has succeeded it does not know where the running thread keeps its registration, and an
    /// operation would write over the thread's control block.
    const INERT: Self;

    /// Reserves slots for every CPU this process may run on. Does nothing when repeated.
    ///
    /// # Errors
    /// The OS's error of the reservation; `init` may then be tried again.
    fn init(&self, os: &'static dyn Os) -> OsResult<()>;

    /// The memory of the slots.
    fn area(&self) -> &SlotArea;

    /// The slot of the running CPU, always below `area().slots()`. A hint that may be stale when it
    /// returns: it serves for choosing page lists and counters, which have locks of their own.
    fn current(&self) -> SlotIndex;

    /// From now on only `thread` (a [task](crate::primitive::task::current)), or no thread at all,
    /// stops the sequences of other CPUs while the process has several threads: that takes a system
    /// call for which a filter may kill. Until the first call every thread may. Backends that make
    /// no such system call ignore this.
    fn leave_barrier_to(&self, _thread: Option<usize>) {}

    /// Does `work` while the calling thread may stop the sequences of other CPUs as well. One
    /// thread at a time.
    fn lending_barrier<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Returns whether restartable sequences serve the fast paths; otherwise slots under a lock
    /// each do.
    fn is_sequenced(&self) -> bool {
        false
    }

    /// Returns whether a drain by the calling thread reaches every slot, unless the kernel refuses.
    /// O(1).
    fn reaches_every_slot(&self) -> bool {
        true
    }

    /// The leaf at `index` of a tree that other threads may be changing, by one sequence of loads.
    /// Returns 0 where there is none, and where the running thread cannot walk: the caller then
    /// looks under the lock of those who change the tree. O(height).
    ///
    /// # Safety
    /// Nodes that the tree has lost stay readable, and keep the form of nodes, until a call of
    /// [`wait_for_walks`](Self::wait_for_walks) that began later has returned true.
    #[inline(always)]
    unsafe fn walk(&self, _tree: &WordTree, _index: u64) -> u64 {
        0
    }

    /// Returns once no walk that began before the call is still under way. Returns false where the
    /// kernel refuses, and where the calling thread may not stop the sequences of other CPUs. At
    /// most one membarrier.
    fn wait_for_walks(&self) -> bool {
        true
    }

    /// Visits the locks: those of the stripes, which fast paths take outside the gate, included.
    fn visit_locks(&self, visit: &mut Visit<'_>);
}

/// Cells that are used as arrays.
///
/// # Safety
/// An object pushed is popped exactly once (or taken once by [`drain`](Self::drain)), unchanged;
/// nothing else is ever returned. Callers push only objects that no other code uses, and give each
/// array objects of one cache only.
pub unsafe trait Arrays: PerCpu {
    /// Takes the top object of the running CPU's array, or `None` (empty or no slot). O(1).
    fn pop(&self, array: ArrayId) -> Option<Object>;

    /// Puts an object on top of the running CPU's array. O(1).
    fn push(&self, array: ArrayId, object: Object) -> Push;

    /// Returns whether `object` seems to be among the [`LOOKED_AT`](super::LOOKED_AT) on top of the
    /// running CPU's array, at a glance: see [`SlotArea::seems_on_top`].
    #[inline(always)]
    fn seems_on_top(&self, array: ArrayId, object: Object) -> bool {
        self.area().seems_on_top(self.current(), array, object)
    }

    /// [`pop`](Self::pop) for the slow path: serves a thread that `pop` cannot serve at all.
    fn pop_unregistered(&self, _array: ArrayId) -> Option<Object> {
        None
    }

    /// [`push`](Self::push) for the slow path, as [`pop_unregistered`](Self::pop_unregistered).
    fn push_unregistered(&self, _array: ArrayId, _object: Object) -> Push {
        Push::Refused
    }

    /// Takes the top `out.len()` objects, all or none, as one operation that is not counted; an
    /// empty batch always succeeds. Where it returns false, `out` may hold anything. O(n).
    fn pop_batch(&self, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool;

    /// Puts `objects` on top in order (the last becomes the top), all or none, not counted; an
    /// empty batch always succeeds. O(n).
    fn push_batch(&self, array: ArrayId, objects: &[Object]) -> bool;

    /// Gives the running CPU's slot all the room for `array` that it may ever have in a narrow
    /// place. O(1), rare.
    ///
    /// # Errors
    /// Where the OS refuses memory for the slot; the slow path then serves.
    fn prepare(&self, array: ArrayId) -> OsResult<()> {
        while self.make_room(array, &Limits::NONE, &mut |_, _| {}) {}
        Ok(())
    }

    /// Gives the running CPU's slot room for `array`, or more of it, as far as `limits` go. Where
    /// they are reached, takes room from arrays of the same slot that are not used, and gives their
    /// objects to `take`. Returns whether there is more room; a thread that changes its CPU
    /// meanwhile has made it on the CPU that it was on. `take` runs with the lock of the bounds
    /// held, as that of [`drain`](Self::drain). O(arrays + objects taken), no system call.
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
    /// to `take`, in pieces; takes their room as well, until a task makes room again. Returns
    /// whether it reached every slot. Where the kernel refuses the barrier (a seccomp filter that
    /// was installed after `init`), the slots of CPUs keep their objects; where the barrier has
    /// been [left to another thread](PerCpu::leave_barrier_to), the slots of other CPUs do.
    ///
    /// Slots are stopped by bounds that no sequence writes, and one barrier serves them all. `take`
    /// runs with the lock of the bounds held: it must not drain, prepare or define. That lock is
    /// held for one slot at a time. `which` always gives the same answer. O(arrays * slots awake +
    /// objects), at most one membarrier, none where no array that `which` chooses has room.
    fn drain_where(
        &self,
        which: &dyn Fn(SlotIndex, ArrayId) -> bool,
        take: &mut dyn FnMut(ArrayId, &[Object]),
    ) -> bool;

    /// The sum over all slots, read without stopping them.
    fn usage(&self, array: ArrayId) -> ArrayUse {
        self.area().usage(array)
    }
}

/// Cells that are used as lists.
///
/// # Safety
/// An object pushed is popped exactly once (or taken once by [`drain_lists`](Self::drain_lists)),
/// and nothing else is ever returned, as long as callers push only objects that no other code uses
/// and leave the first word of each to the list.
pub unsafe trait Lists: PerCpu {
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

    /// Puts an object at the head of the running CPU's list if that has fewer objects than the
    /// lower half of the cell's guard says (at most 2^20 - 1; 0 in fresh memory and after a drain).
    /// The upper half is the caller's. O(1).
    ///
    /// # Safety
    /// As [`list_push`](Self::list_push).
    unsafe fn list_push_below(&self, array: ArrayId, object: Object) -> Push;

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

    /// Takes the list of `array` out of every slot, with its guard and its length, and leaves both
    /// words 0. The objects hang together by their first words. Returns whether it reached every
    /// slot; `take` must not drain, prepare or define, both as for
    /// [`Arrays::drain`].
    fn drain_lists(&self, array: ArrayId, take: &mut dyn FnMut(u64, Option<Object>, usize))
    -> bool;
}
