//! Slots of CPUs under restartable sequences, and locked stripes for threads that cannot run them.
//!
//! This file holds the protocol between sequences and a task that stops them to open an array,
//! drain it or take a list. It is generic over the sequences, which are those of the CPU or the
//! step lists of the model checker. So the model checker runs the code that runs in products.
//!
//! * A sequence loads its cell's bounds (or guard) first and refuses where they are closed.
//! * A task that changes a cell of another CPU first closes it, by a word that sequences never
//!   write (except `compare_store` on a list's guard, see `drain_lists`). Then it calls
//!   `Cpus::barrier`: afterwards no sequence that saw the cell open is running.
//! * A task that changes a cell of its own CPU closes it by a sequence, `compare_store`, and calls
//!   no barrier: the closer ran on that CPU, so any other sequence on the slot was preempted and
//!   will restart. Then the closer may migrate; the cell stays closed until the closer opens it.
//! * Only the holder of the bounds' lock opens or closes a cell. A drain releases that lock between
//!   closing and emptying. In between, a task that finds a cell closed leaves it alone.
//!
//! The barrier is membarrier(2). As no other allocator calls it, a seccomp filter may kill a
//! caller. [`PerCpu::leave_barrier_to`] can leave the call to one thread. Then drains of other
//! threads empty only the slot of the running CPU and the stripes, and report that they have not
//! reached every slot, unless they borrow the right to the barrier ([`PerCpu::lending_barrier`]).
//! The only thread of a process is in no sequence when it drains, so it needs no barrier.

use super::area::SlotArea;
use super::layout::{ArrayId, CellWord, SlotIndex};
use super::locked::LockedSlots;
use super::object::{Object, Push, Take, TakeList, Which};
use super::per_cpu::{Arrays, Lists, PerCpu};
use super::room::Limits;
use super::sequences::{STOPPED_LIST, Sequences};
use super::stripes::{ChooseSlot, ThreadStripe};
use super::word_tree::WordTree;
use crate::lock::CountedLock;
use crate::locks::Visit;
use crate::os::{Os, OsResult};
use crate::primitive::{AtomicBool, AtomicUsize, Ordering, task};
use core::mem::MaybeUninit;

/// Bounds that refuse every push and pop: `end = 0`, `begin = 0xffff`. Fresh memory has this value,
/// so an array that was never opened refuses, as does one that a drain has stopped.
const CLOSED: u64 = 0;

/// Slots `0..Q::slots()` for CPUs, followed by the stripes. The words that sequences load come
/// first.
#[repr(C)]
pub struct Sequenced<Q: Sequences> {
    pub(super) sequences: Q,
    /// The area of all slots, and the stripes.
    pub(super) stripes: LockedSlots<ThreadStripe>,
    /// The task that may call the barrier, or `ANYBODY` or `NOBODY`.
    caller: AtomicUsize,
    /// Another task that may call the barrier for now; 0 without such a task.
    borrower: AtomicUsize,
    /// Held by a drain as long as its arrays are stopped, even while others have the bounds' lock.
    draining: CountedLock<()>,
    /// False if the process lacks rseq or membarrier.
    active: AtomicBool,
}

const ANYBODY: usize = 0;
const NOBODY: usize = 1;

/// Attempts to close a cell of the running CPU. An attempt fails if the thread migrates, or is
/// interrupted too often.
const TRIES_TO_CLOSE: u32 = 8;

/// Returns whether a batch is small enough for the sequences, which take at most 0xffff objects.
fn is_countable(objects: usize) -> bool {
    objects <= 0xffff
}

impl<Q: Sequences> Sequenced<Q> {
    /// The sequences.
    pub fn sequences(&self) -> &Q {
        &self.sequences
    }

    fn cpu_count(&self) -> u32 {
        self.stripes.first.load(Ordering::Relaxed)
    }

    fn cpu_slots(&self) -> impl Iterator<Item = SlotIndex> {
        (0..self.cpu_count()).map(SlotIndex)
    }

    /// Returns the slot of the running CPU, if it has one and the thread is registered.
    #[inline]
    fn own_slot(&self) -> Option<SlotIndex> {
        let slot = self.sequences.slot();
        (self.sequences.registered() && slot < self.cpu_count()).then_some(SlotIndex(slot))
    }

    /// The slot of the running CPU, or a stripe, of a thread that had no slot. Not inlined, because
    /// only the first slow path of a thread comes here, unless the kernel refuses sequences.
    #[cold]
    #[inline(never)]
    fn other_slot(&self) -> SlotIndex {
        let enrolled = if self.sequences.enroll() { self.own_slot() } else { None };
        enrolled.unwrap_or_else(|| self.stripes.current())
    }

    /// Returns whether [`current`](PerCpu::current) is the slot of a CPU.
    #[inline]
    fn has_slot(&self) -> bool {
        self.current().0 < self.cpu_count()
    }

    /// Counts the sequences of the thread that left because they were aborted too often. Called
    /// with the answer of a sequence of a slow path, which it returns.
    fn settle(&self, has_ended: bool) -> bool {
        let left = self.sequences.settle(has_ended);
        if left > 0 {
            self.area().left.fetch_add(left, Ordering::Relaxed);
        }
        has_ended
    }

    /// Waits until no earlier sequence runs. Returns false if the kernel refuses.
    fn barrier(&self) -> bool {
        if !self.is_sequenced() || self.sequences.is_alone() {
            return true;
        }
        self.area().barriers.fetch_add(1, Ordering::Relaxed);
        self.sequences.barrier()
    }

    /// Returns whether the calling thread may stop the sequences of all CPUs.
    fn may_stop_all(&self) -> bool {
        if !self.is_sequenced() || self.sequences.is_alone() {
            return true;
        }
        let (caller, me) = (self.caller.load(Ordering::Relaxed), task::current());
        caller == ANYBODY || caller == me || self.borrower.load(Ordering::Relaxed) == me
    }

    /// Stores `closed` in place of the bounds or the guard (word 1) of the running CPU's cell, by a
    /// sequence: from then on no sequence changes that cell. Returns the slot and the old word;
    /// `None` if the thread has no slot or migrated at each attempt, or if the cell is closed
    /// already. The caller holds `bounds_lock`.
    fn close_own(&self, array: ArrayId, closed: u64) -> Option<(SlotIndex, u64)> {
        for _ in 0..TRIES_TO_CLOSE {
            let slot = self.current();
            if slot.0 >= self.cpu_count() {
                return None;
            }
            let open = self.area().word(slot, array, 1).load(Ordering::Relaxed);
            if open == closed {
                return None;
            }
            if self.sequences.compare_store(self.area(), (slot, array, 1), open, closed) {
                return Some((slot, open));
            }
        }
        None
    }

    /// Empties those of the running CPU's arrays that `which` chooses, one after the other. A
    /// thread that migrates goes on with the arrays of its new CPU.
    fn drain_own(&self, which: &Which<'_>, take: &mut Take<'_>) {
        let here = self.current();
        if here.0 >= self.cpu_count() || !self.area().is_awake(here) {
            return;
        }
        for array in self.area().with_room(here).filter(|array| which(here, *array)) {
            let _bounds = self.area().bounds_lock.lock();
            self.empty_own(array, |slot| which(slot, array), take);
        }
    }

    /// Takes the objects and the room of `array` in the slot of the running CPU, if `which` chooses
    /// that slot; returns whether it did. The caller holds `bounds_lock`.
    fn empty_own(
        &self,
        array: ArrayId,
        which: impl Fn(SlotIndex) -> bool,
        take: &mut Take<'_>,
    ) -> bool {
        let Some((slot, _)) = self.close_own(array, CLOSED) else { return false };
        let is_chosen = which(slot);
        if is_chosen {
            self.area().empty_stopped(slot, array, take);
        }
        self.area().reopen(slot, array);
        is_chosen
    }

    /// Stops those arrays in CPUs' slots that `which` chooses; returns whether it stopped any.
    fn stop_arrays(&self, which: &Which<'_>) -> bool {
        let _bounds = self.area().bounds_lock.lock();
        let mut any = false;
        for slot in self.cpu_slots().filter(|slot| self.area().is_awake(*slot)) {
            for array in self.area().with_room(slot).filter(|array| which(slot, *array)) {
                self.area().word(slot, array, 1).store(CLOSED, Ordering::Release);
                any = true;
            }
        }
        any
    }

    /// Opens the arrays that [`Arrays::drain_where`] has stopped, after emptying them if `flushed`.
    fn empty_stopped_slots(&self, flushed: bool, take: &mut Take<'_>) {
        for slot in self.cpu_slots().filter(|slot| self.area().is_awake(*slot)) {
            let _bounds = self.area().bounds_lock.lock();
            for array in self.area().with_room(slot) {
                if !self.area().is_stopped(slot, array) {
                    continue;
                }
                if flushed {
                    self.area().empty_stopped(slot, array, take);
                }
                self.area().reopen(slot, array);
            }
        }
    }

    /// Stops the list of `array` in each CPU's slot, unless it is empty and has no guard: saves its
    /// guard and stores the *mark* [`STOPPED_LIST`] instead. Returns whether it stopped any.
    fn stop_lists(&self, array: ArrayId) -> bool {
        let word = |slot, word| self.area().word(slot, array, word);
        let mut missing = false;
        for slot in self.cpu_slots() {
            // Writing to a slot that was never used would bring its page into memory.
            if (0..2).all(|index| word(slot, index).load(Ordering::Relaxed) == 0) {
                continue;
            }
            let guard = word(slot, 1).swap(STOPPED_LIST, Ordering::AcqRel);
            if guard != STOPPED_LIST {
                self.saved_guard(slot).store(guard, Ordering::Relaxed);
                missing = true;
            }
        }
        missing
    }

    fn stopped_lists(&self, array: ArrayId) -> impl Iterator<Item = SlotIndex> {
        // Reads the marks again: a list may have come into use since `stop_lists` set them.
        self.cpu_slots().filter(move |slot| {
            self.area().word(*slot, array, 1).load(Ordering::Relaxed) == STOPPED_LIST
        })
    }

    /// Puts the guards back, except where a `compare_store` that began earlier overwrote the mark.
    fn restart_lists(&self, array: ArrayId) {
        for slot in self.stopped_lists(array) {
            let guard = self.saved_guard(slot).load(Ordering::Relaxed);
            let _ = self.area().word(slot, array, 1).compare_exchange(
                STOPPED_LIST,
                guard,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// The word in which the guard of a stopped list is saved: word 2 of the slot's control cell.
    fn saved_guard(&self, slot: SlotIndex) -> &crate::primitive::AtomicU64 {
        self.area().at(slot, 2)
    }
}

// SAFETY: a sequence either commits on the CPU whose slot it read or starts again, and no other
// code writes that slot's cell in between. `give_room` writes the header only of a cell that every
// sequence refuses. A drain writes only to a closed cell that no running sequence saw open: either
// `Cpus::barrier` has restarted all sequences, or a sequence on that very slot closed the cell, or
// there is no other thread. The stripes' cells are written under their locks.
unsafe impl<Q: Sequences> PerCpu for Sequenced<Q> {
    const INERT: Self = Self {
        sequences: Q::INERT,
        active: AtomicBool::new(false),
        caller: AtomicUsize::new(ANYBODY),
        borrower: AtomicUsize::new(0),
        stripes: LockedSlots::INERT,
        draining: CountedLock::new(()),
    };

    fn init(&self, os: &'static dyn Os) -> OsResult<()> {
        let mut done = self.stripes.once.lock();
        if !*done {
            let (cpus, stripes) = (self.sequences.slots(), self.stripes.choice().slots());
            self.area().reserve(os, cpus, stripes, self.sequences.numbers())?;
            self.stripes.first.store(cpus, Ordering::Relaxed);
            self.stripes.count.store(stripes, Ordering::Relaxed);
            self.active.store(self.sequences.start(), Ordering::Release);
            *done = true;
        }
        Ok(())
    }

    fn area(&self) -> &SlotArea {
        &self.stripes.area
    }

    fn is_sequenced(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    fn is_stepped(&self) -> bool {
        self.sequences.is_impatient()
    }

    #[inline(always)]
    fn reads_owner_once(&self) -> bool {
        self.sequences.reads_owner_once()
    }

    #[inline]
    fn current(&self) -> SlotIndex {
        self.own_slot().unwrap_or_else(|| self.other_slot())
    }

    fn leave_barrier_to(&self, thread: Option<usize>) {
        self.caller.store(thread.unwrap_or(NOBODY), Ordering::Relaxed);
    }

    fn lending_barrier<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.borrower.swap(task::current(), Ordering::Relaxed);
        let done = work();
        self.borrower.store(before, Ordering::Relaxed);
        done
    }

    fn reaches_every_slot(&self) -> bool {
        self.may_stop_all()
    }

    #[inline(always)]
    unsafe fn walk(&self, tree: &WordTree, index: u64) -> u64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.sequences.walk(self.area(), tree, index) }
    }

    fn wait_for_walks(&self) -> bool {
        self.may_stop_all() && self.barrier()
    }

    fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("percpu->once", &self.stripes.once);
        visit("percpu->draining", &self.draining);
        self.area().visit_locks(visit);
        self.stripes.visit_slots(visit);
    }
}

// SAFETY: as for `PerCpu`.
unsafe impl<Q: Sequences> Arrays for Sequenced<Q> {
    #[inline(always)]
    fn pop(&self, array: ArrayId) -> Option<Object> {
        self.sequences.pop(self.area(), array)
    }

    #[inline(always)]
    fn push(&self, array: ArrayId, object: Object) -> Push {
        self.sequences.push(self.area(), array, object)
    }

    #[inline(always)]
    fn seems_on_top(&self, array: ArrayId, object: Object) -> bool {
        let slot = SlotIndex(self.sequences.slot());
        self.sequences.registered() && self.area().seems_on_top(slot, array, object)
    }

    fn pop_unregistered(&self, array: ArrayId) -> Option<Object> {
        if self.has_slot() {
            return None;
        }
        self.stripes.pop(array)
    }

    fn push_unregistered(&self, array: ArrayId, object: Object) -> Push {
        if self.has_slot() {
            return Push::Refused;
        }
        self.stripes.push(array, object)
    }

    fn pop_batch(&self, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool {
        if !out.is_empty() && self.has_slot() {
            is_countable(out.len())
                && self.settle(self.sequences.pop_batch(self.area(), array, out))
        } else {
            self.stripes.pop_batch(array, out)
        }
    }

    fn push_batch(&self, array: ArrayId, objects: &[Object]) -> bool {
        if !objects.is_empty() && self.has_slot() {
            is_countable(objects.len())
                && self.settle(self.sequences.push_batch(self.area(), array, objects))
        } else {
            self.stripes.push_batch(array, objects)
        }
    }

    fn make_room(&self, array: ArrayId, limits: &Limits, take: &mut Take<'_>) -> bool {
        let bounds = self.area().bounds_lock.lock();
        let slot = self.current();
        let place = (slot, array);
        if slot.0 >= self.cpu_count() {
            return self.stripes.make_room_in(&bounds, place, limits, take);
        }
        self.area().make_room_held(&bounds, place, limits, |unused| {
            // The thread may have migrated since.
            self.empty_own(unused, |closed| closed == slot, take)
        })
    }

    fn widen_within(&self, array: ArrayId, limits: &Limits) -> bool {
        let _bounds = self.area().bounds_lock.lock();
        let slot = self.current();
        if slot.0 >= self.cpu_count() {
            return self.stripes.widen_in(slot, array, limits);
        }
        if self.area().free_wide_place(slot, array, limits).is_none() {
            return false;
        }
        let Some((slot, _)) = self.close_own(array, CLOSED) else { return false };
        // The thread may have migrated before, and so have closed the cell of another slot.
        let wide = self.area().free_wide_place(slot, array, limits);
        if let Some(wide) = wide {
            self.area().widen_stopped(slot, array, wide);
        }
        self.area().reopen(slot, array);
        wide.is_some()
    }

    fn drain_where(&self, which: &Which<'_>, take: &mut Take<'_>) -> bool {
        if !self.may_stop_all() {
            self.drain_own(which, take);
            self.stripes.drain_where(which, take);
            return false;
        }
        // Only the holder of this lock keeps arrays stopped without holding `bounds_lock`.
        let _draining = self.draining.lock();
        let mut flushed = true;
        if self.stop_arrays(which) {
            flushed = self.barrier();
            self.empty_stopped_slots(flushed, take);
        }
        self.stripes.drain_where(which, take);
        flushed
    }
}

// SAFETY: as for `PerCpu`.
unsafe impl<Q: Sequences> Lists for Sequenced<Q> {
    #[inline(always)]
    unsafe fn list_pop(&self, array: ArrayId) -> Option<Object> {
        // SAFETY: the caller's promise is passed on.
        let popped = unsafe { self.sequences.list_pop(self.area(), array) };
        if popped.is_some() || self.has_slot() {
            return popped;
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.stripes.list_pop(array) }
    }

    #[inline(always)]
    unsafe fn list_push(&self, array: ArrayId, guard: u64, object: Object) -> Push {
        // SAFETY: the caller's promise is passed on.
        let push = unsafe { self.sequences.list_push(self.area(), array, guard, object) };
        if push != Push::Refused || self.has_slot() {
            return push;
        }
        // SAFETY: the caller's promise is passed on; a refused object is still the caller's.
        unsafe { self.stripes.list_push(array, guard, object) }
    }

    #[inline(always)]
    unsafe fn list_push_below(&self, array: ArrayId, object: Object) -> Push {
        // SAFETY: the caller's promise is passed on.
        let push = unsafe { self.sequences.list_push_below(self.area(), array, object) };
        if push != Push::Refused || self.has_slot() {
            return push;
        }
        // SAFETY: the caller's promise is passed on; a refused object is still the caller's.
        unsafe { self.stripes.list_push_below(array, object) }
    }

    fn compare_store(&self, at: CellWord, expected: u64, new: u64) -> bool {
        let (slot, _, word) = at;
        assert!(slot.0 < self.area().slots() && word < 4);
        if slot.0 < self.cpu_count() {
            self.settle(self.sequences.compare_store(self.area(), at, expected, new))
        } else {
            self.stripes.compare_store(at, expected, new)
        }
    }

    fn drain_lists(&self, array: ArrayId, take: &mut TakeList<'_>) -> bool {
        let _bounds = self.area().bounds_lock.lock();
        if !self.may_stop_all() {
            if let Some((slot, guard)) = self.close_own(array, STOPPED_LIST) {
                self.area().empty_list(slot, array, guard, take);
            }
            self.stripes.drain_lists_held(array, take);
            return false;
        }
        // A `compare_store` that began before a mark was set may overwrite it, so this sets marks
        // and calls `barrier` until a round finds every mark in place. A `compare_store` that
        // begins after the mark refuses, so two rounds suffice.
        let mut flushed = true;
        while flushed && self.stop_lists(array) {
            flushed = self.barrier();
        }
        if flushed {
            for slot in self.stopped_lists(array) {
                let guard = self.saved_guard(slot).load(Ordering::Relaxed);
                self.area().empty_list(slot, array, guard, take);
            }
        } else {
            self.restart_lists(array);
        }
        self.stripes.drain_lists_held(array, take);
        flushed
    }
}
