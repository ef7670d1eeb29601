//! The traits of a backend of per-CPU slots: one for the slots, and one for each of the two forms
//! of a cell. A policy requires the traits that it uses.

use super::area::SlotArea;
use super::layout::{ArrayId, CellWord, SlotIndex};
use super::object::{ArrayUse, Object, Push, Take, TakeList, Which};
use super::room::Limits;
use super::word_tree::WordTree;
use crate::locks::Visit;
use crate::os::{Os, OsResult};
use core::mem::MaybeUninit;

/// The slots of CPUs, whatever the form of their cells.
///
/// # Safety
/// [`area`](Self::area) is the same at every call, and once [`init`](Self::init) has succeeded,
/// [`current`](Self::current) is below the number of its slots.
pub unsafe trait PerCpu: Sync + Sized {
    /// An instance without slots. Only [`init`](Self::init) may be called on it. Any other
    /// operation would write over the thread's control block, because the instance does not know
    /// yet where the running thread's registration is.
    const INERT: Self;

    /// Reserves slots for every CPU this process may run on. Does nothing when repeated.
    ///
    /// # Errors
    /// The OS's error of the reservation; `init` may then be tried again.
    fn init(&self, os: &'static dyn Os) -> OsResult<()>;

    /// The memory of the slots.
    fn area(&self) -> &SlotArea;

    /// The slot of the running CPU, always below `area().slots()`. A hint, which may be out of date
    /// on return: callers use it to choose pcp lists and counters, which have locks of their own.
    fn current(&self) -> SlotIndex;

    /// While the process has several threads, lets only `thread` (a
    /// [task](crate::primitive::task::current)), or no thread, call membarrier(2), which stops the
    /// sequences of other CPUs. (A seccomp filter may kill other threads for that call.) Until this
    /// is called, every thread may call membarrier(2). Backends that never call it ignore this.
    fn leave_barrier_to(&self, _thread: Option<usize>) {}

    /// Does `work`, in which the calling thread may call membarrier(2), too. One thread at a time.
    fn lending_barrier<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Returns whether restartable sequences serve the fast paths; if not, each slot has a lock.
    fn is_sequenced(&self) -> bool {
        false
    }

    /// Returns whether something, as a debugger that steps it, keeps interrupting the sequences of
    /// the running thread, so that slow paths serve it. O(1).
    fn is_stepped(&self) -> bool {
        false
    }

    /// Returns whether a free is to read the owner of a slab only once: a bug, planted for models.
    fn reads_owner_once(&self) -> bool {
        false
    }

    /// Returns whether a drain by the calling thread can reach every slot. O(1).
    fn reaches_every_slot(&self) -> bool {
        true
    }

    /// Returns the leaf at `index` of a tree that other threads may be changing, by one sequence of
    /// loads. Returns 0 if there is no leaf, or if the running thread cannot walk: the caller then
    /// looks the leaf up under the tree's lock. O(height).
    ///
    /// # Safety
    /// Nodes removed from the tree stay readable, and keep the form of nodes, until a
    /// [`wait_for_walks`](Self::wait_for_walks) that began after the removal has returned true.
    #[inline(always)]
    unsafe fn walk(&self, _tree: &WordTree, _index: u64) -> u64 {
        0
    }

    /// Waits until all earlier walks have ended, by at most one membarrier. Returns false if the
    /// kernel refuses, or if the thread may not call membarrier(2).
    fn wait_for_walks(&self) -> bool {
        true
    }

    /// Visits the locks that fast paths take outside the gate, those of the stripes included.
    fn visit_locks(&self, visit: &mut Visit<'_>);
}

/// Cells that are used as arrays.
///
/// # Safety
/// Each object pushed is popped exactly once (or taken once by [`drain`](Self::drain)), unchanged;
/// no operation returns anything else. Callers push only objects that no other code uses, and give
/// each array objects of one cache only.
pub unsafe trait Arrays: PerCpu {
    /// Takes the top object of the running CPU's array; `None` if it is empty or closed. O(1).
    fn pop(&self, array: ArrayId) -> Option<Object>;

    /// Puts an object on top of the running CPU's array. O(1).
    fn push(&self, array: ArrayId, object: Object) -> Push;

    /// Returns whether `object` seems to be among the top [`LOOKED_AT`](super::LOOKED_AT) of the
    /// running CPU's array, without certainty: see [`SlotArea::seems_on_top`].
    #[inline(always)]
    fn seems_on_top(&self, array: ArrayId, object: Object) -> bool {
        self.area().seems_on_top(self.current(), array, object)
    }

    /// [`pop`](Self::pop) for the slow path: also works in a thread without a registration.
    fn pop_unregistered(&self, _array: ArrayId) -> Option<Object> {
        None
    }

    /// [`push`](Self::push) for the slow path: also works in a thread without a registration.
    fn push_unregistered(&self, _array: ArrayId, _object: Object) -> Push {
        Push::Refused
    }

    /// Takes the top `out.len()` objects, all or none, as one operation that statistics do not
    /// count. An empty batch always succeeds. After false, `out` is unspecified. O(n).
    fn pop_batch(&self, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool;

    /// Puts `objects` on top in order (the last becomes the top), all or none; statistics do not
    /// count this. An empty batch always succeeds. O(n).
    fn push_batch(&self, array: ArrayId, objects: &[Object]) -> bool;

    /// Gives `array` all the room of its narrow place in the running CPU's slot. O(1), rare.
    ///
    /// # Errors
    /// Where the OS refuses memory for the slot; then the slow path does the work.
    fn prepare(&self, array: ArrayId) -> OsResult<()> {
        while self.make_room(array, &Limits::NONE, &mut |_, _| {}) {}
        Ok(())
    }

    /// Gives `array` room, or more room, in the running CPU's slot, within `limits`. At the limits
    /// it takes room from unused arrays of the slot, and passes their objects to `take`, with the
    /// rules of [`drain_where`](Self::drain_where). Returns whether it gave any, perhaps in the
    /// slot of a CPU that the thread has left since. O(arrays + objects taken), no system call.
    fn make_room(&self, array: ArrayId, limits: &Limits, take: &mut Take<'_>) -> bool;

    /// Moves the running CPU's array to a wide place, or gives it more room there, if the array may
    /// have such a place, one is free, and `limits` allow it. The array stays there until drained.
    /// Returns whether an array got room: another CPU's if the thread has migrated. O(objects), no
    /// system call.
    fn widen_within(&self, array: ArrayId, limits: &Limits) -> bool;

    /// [`widen_within`](Self::widen_within) without limits.
    fn widen(&self, array: ArrayId) -> bool {
        self.widen_within(array, &Limits::NONE)
    }

    /// Takes all objects of `array` out of every slot and passes them to `take`, in pieces. The
    /// rules are those of [`drain_where`](Self::drain_where).
    fn drain(&self, array: ArrayId, take: &mut dyn FnMut(&[Object])) -> bool {
        self.drain_where(&|_, other| other == array, &mut |_, objects| take(objects))
    }

    /// Takes the objects and the room of all arrays that `which` chooses, in all slots, and passes
    /// the objects to `take` in pieces. Returns whether it reached every slot. It skips the slots
    /// of CPUs if the kernel refuses membarrier(2) (a seccomp filter came after `init`), and those
    /// of other CPUs if [another thread](PerCpu::leave_barrier_to) has to make that call.
    ///
    /// A drain stops slots by closed bounds, which no sequence writes, and one membarrier(2).
    /// `take` runs under `bounds_lock`, which is held for one slot at a time: it must not drain,
    /// prepare or define. `which` must always give the same answer. O(arrays * slots awake +
    /// objects), at most one membarrier(2), and none if no array that `which` chooses has room.
    fn drain_where(&self, which: &Which<'_>, take: &mut Take<'_>) -> bool;

    /// The counts of `array`, summed over all slots without stopping them.
    fn usage(&self, array: ArrayId) -> ArrayUse {
        self.area().usage(array)
    }
}

/// Cells that are used as lists.
///
/// # Safety
/// Each object pushed is popped exactly once (or taken once by [`drain_lists`](Self::drain_lists)),
/// and no operation returns anything else, as long as callers push only objects that no other code
/// uses and leave the first word of each to the list.
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

    /// Puts an object at the head of the running CPU's list if the list has fewer objects than the
    /// lower half of the cell's guard (at most 2^20 - 1; 0 in fresh memory and after a drain). The
    /// upper half is free for the caller. O(1).
    ///
    /// # Safety
    /// The same as for [`list_push`](Self::list_push).
    unsafe fn list_push_below(&self, array: ArrayId, object: Object) -> Push;

    /// Stores `new`, which is not all ones, in a word of a list's cell, if the running CPU has that
    /// slot and the word holds `expected`. Returns whether it stored; it never does while a drain
    /// has stopped the list. O(1).
    ///
    /// # Panics
    /// Where the slot or the word does not exist.
    fn compare_store(&self, at: CellWord, expected: u64, new: u64) -> bool;

    /// Passes the list of `array` in every slot (guard, head, length) to `take`, and zeroes head,
    /// length and guard. The first word of each object points to the next. Returns whether it
    /// reached every slot. `take` must not drain, prepare or define: see [`Arrays::drain_where`].
    fn drain_lists(&self, array: ArrayId, take: &mut TakeList<'_>) -> bool;
}
