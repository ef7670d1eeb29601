//! Slots that are only used under their locks: for CPUs without sequences, for sanitizers, and for
//! tests and simulators that declare the CPU of each thread.

use super::area::SlotArea;
use super::layout::{ArrayId, CELL_SHIFT, SlotIndex};
use super::object::{Object, Push};
use super::per_cpu::{Arrays, Lists, PerCpu};
use super::room::Limits;
use super::stripes::{ChooseSlot, Stripes};
use crate::lock::CountedLock;
use crate::locks::Visit;
use crate::os::{Os, OsResult};
use crate::primitive::{AtomicPtr, AtomicU32, Ordering};
use core::mem::MaybeUninit;

/// Chooses the slot that a given function returns: the virtual CPU of the calling thread. The
/// function usually reads a thread-local, which this `no_std` crate cannot have.
pub struct DeclaredSlot {
    slots: AtomicU32,
    current: AtomicPtr<()>,
}

impl DeclaredSlot {
    /// Sets the number of slots and the function that returns the caller's slot. Before `init`.
    pub fn declare(&self, slots: u32, current: fn() -> u32) {
        self.slots.store(slots, Ordering::Relaxed);
        self.current.store(current as *mut (), Ordering::Relaxed);
    }
}

impl ChooseSlot for DeclaredSlot {
    const NEW: Self =
        Self { slots: AtomicU32::new(1), current: AtomicPtr::new(core::ptr::null_mut()) };
    const MAY_WANDER: bool = false;

    fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    fn choose(&self) -> u32 {
        let current = self.current.load(Ordering::Relaxed);
        if current.is_null() {
            return 0;
        }
        // SAFETY: only `declare` stores here, and what it stores is a `fn() -> u32`.
        let current: fn() -> u32 = unsafe { core::mem::transmute(current) };
        current()
    }
}

/// Slots that are only used under their locks.
pub struct LockedSlots<C: ChooseSlot> {
    area: SlotArea,
    stripes: Stripes<C>,
    once: CountedLock<bool>,
}

impl<C: ChooseSlot> LockedSlots<C> {
    /// The object that chooses slots; a [`DeclaredSlot`] is told its number of slots through this.
    pub fn choice(&self) -> &C {
        &self.stripes.choice
    }
}

// SAFETY: every access to a cell or array happens under the slot's lock, `take` and `put` move
// whole words between caller and array, and the words below `top`, and only those, are objects.
unsafe impl<C: ChooseSlot> PerCpu for LockedSlots<C> {
    const INERT: Self =
        Self { area: SlotArea::new(), stripes: Stripes::new(), once: CountedLock::new(false) };

    fn init(&self, os: &'static dyn Os) -> OsResult<()> {
        let mut done = self.once.lock();
        if !*done {
            let count = self.stripes.choice.slots();
            self.area.reserve(os, count, 0, count)?;
            self.stripes.count.store(count, Ordering::Relaxed);
            *done = true;
        }
        Ok(())
    }

    fn area(&self) -> &SlotArea {
        &self.area
    }

    fn current(&self) -> SlotIndex {
        self.stripes.current()
    }

    fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("percpu->once", &self.once);
        self.area.visit_locks(visit);
        self.stripes.visit_locks(&self.area, visit);
    }
}

// SAFETY: as for `PerCpu`.
unsafe impl<C: ChooseSlot> Arrays for LockedSlots<C> {
    fn pop(&self, array: ArrayId) -> Option<Object> {
        self.stripes.pop(&self.area, array)
    }

    fn push(&self, array: ArrayId, object: Object) -> Push {
        self.stripes.push(&self.area, array, object)
    }

    fn pop_batch(&self, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool {
        out.is_empty() || self.stripes.pop_batch(&self.area, array, out)
    }

    fn push_batch(&self, array: ArrayId, objects: &[Object]) -> bool {
        objects.is_empty() || self.stripes.push_batch(&self.area, array, objects)
    }

    fn make_room(
        &self,
        array: ArrayId,
        limits: &Limits,
        take: &mut dyn FnMut(ArrayId, &[Object]),
    ) -> bool {
        let bounds = self.area.bounds_lock.lock();
        let place = (self.current(), array);
        self.stripes.make_room(&self.area, &bounds, place, limits, take)
    }

    fn widen_within(&self, array: ArrayId, limits: &Limits) -> bool {
        let _bounds = self.area.bounds_lock.lock();
        self.stripes.widen(&self.area, self.current(), array, limits)
    }

    fn drain_where(
        &self,
        which: &dyn Fn(SlotIndex, ArrayId) -> bool,
        take: &mut dyn FnMut(ArrayId, &[Object]),
    ) -> bool {
        self.stripes.drain(&self.area, which, take);
        true
    }
}

// SAFETY: as for `PerCpu`.
unsafe impl<C: ChooseSlot> Lists for LockedSlots<C> {
    unsafe fn list_pop(&self, array: ArrayId) -> Option<Object> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.stripes.list_pop(&self.area, array) }
    }

    unsafe fn list_push(&self, array: ArrayId, guard: u64, object: Object) -> Push {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.stripes.list_push(&self.area, array, guard, object) }
    }

    unsafe fn list_push_below(&self, array: ArrayId, object: Object) -> Push {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.stripes.list_push_below(&self.area, array, object) }
    }

    fn compare_store(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        word: usize,
        expected: u64,
        new: u64,
    ) -> bool {
        // A declared slot is a CPU's: no other CPU may write its cells.
        (C::MAY_WANDER || slot == self.current())
            && self.stripes.compare_store(&self.area, slot, array, word, expected, new)
    }

    fn drain_lists(
        &self,
        array: ArrayId,
        take: &mut dyn FnMut(u64, Option<Object>, usize),
    ) -> bool {
        let _bounds = self.area.bounds_lock.lock();
        self.stripes.drain_lists(&self.area, array, take);
        true
    }
}

const _: () = assert!(1 << CELL_SHIFT == 4 * size_of::<u64>(), "a cell is four words");
