//! Slots that are only used under their locks: for CPUs without sequences, threads without a
//! registration, sanitizers, and tests and simulators that declare the CPU of each thread.
//!
//! Pushes and pops only try the lock, so that no fast path waits. `prepare` and `drain` wait for
//! it: they spin briefly and then nap.

use super::area::SlotArea;
use super::layout::{ArrayId, CELL_SHIFT, CellWord, LIST_MAX, LOOKED_AT, SlotIndex};
use super::object::{Object, Push, Take, TakeList, Which};
use super::per_cpu::{Arrays, Lists, PerCpu};
use super::room::Limits;
use super::stripes::{ChooseSlot, SlotGuard, Stripe, lock, try_lock};
use crate::lock::{CountedLock, Guard};
use crate::locks::Visit;
use crate::os::{Os, OsResult};
use crate::primitive::touch::touch_bytes;
use crate::primitive::{Access, AtomicPtr, AtomicU32, Ordering};
use core::mem::MaybeUninit;

/// Slots that an operation tries to lock before the slow path takes over.
const TRIES: u32 = 4;

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

/// Slots that are only used under their locks: `first..first + count` of the area.
pub struct LockedSlots<C: ChooseSlot> {
    pub(super) area: SlotArea,
    pub(super) first: AtomicU32,
    pub(super) count: AtomicU32,
    choice: C,
    pub(super) once: CountedLock<bool>,
}

impl<C: ChooseSlot> LockedSlots<C> {
    /// The object that chooses slots; a [`DeclaredSlot`] is told its number of slots through this.
    pub fn choice(&self) -> &C {
        &self.choice
    }

    fn slots(&self) -> impl Iterator<Item = SlotIndex> {
        let first = self.first.load(Ordering::Relaxed);
        (first..first + self.count.load(Ordering::Relaxed)).map(SlotIndex)
    }

    #[inline]
    fn slot(&self, hint: u32) -> SlotIndex {
        let count = self.count.load(Ordering::Relaxed);
        SlotIndex(self.first.load(Ordering::Relaxed) + hint % count)
    }

    fn enter(&self) -> Option<SlotGuard<'_>> {
        let hint = self.choice.choose();
        let tries = if C::MAY_WANDER { TRIES } else { 1 };
        (0..tries).find_map(|try_| try_lock(&self.area, self.slot(hint.wrapping_add(try_))))
    }

    /// See [`Arrays::make_room`](super::Arrays::make_room). The caller holds `bounds_lock`.
    pub(super) fn make_room_in(
        &self,
        bounds: &Guard<'_, ()>,
        (slot, array): (SlotIndex, ArrayId),
        limits: &Limits,
        take: &mut Take<'_>,
    ) -> bool {
        // Lock order: bounds before slots, as in a drain and a fork.
        let _slot = lock(&self.area, slot);
        self.area.make_room_held(bounds, (slot, array), limits, |unused| {
            self.area.empty_stopped(slot, unused, take);
            self.area.reopen(slot, unused);
            true
        })
    }

    /// See [`Arrays::widen_within`](super::Arrays::widen_within). The caller holds `bounds_lock`.
    pub(super) fn widen_in(&self, slot: SlotIndex, array: ArrayId, limits: &Limits) -> bool {
        let Some(wide) = self.area.free_wide_place(slot, array, limits) else { return false };
        let _slot = lock(&self.area, slot);
        self.area.widen_stopped(slot, array, wide);
        self.area.reopen(slot, array);
        true
    }

    pub(super) fn drain_lists_held(&self, array: ArrayId, take: &mut TakeList<'_>) {
        for slot in self.slots() {
            let _slot = lock(&self.area, slot);
            let guard = self.area.word(slot, array, 1).load(Ordering::Relaxed);
            self.area.empty_list(slot, array, guard, take);
        }
    }

    pub(super) fn visit_slots(&self, visit: &mut Visit<'_>) {
        for slot in self.slots().filter(|slot| self.area.was_locked(*slot)) {
            visit("percpu->stripe", &Stripe(self.area.control(slot)));
        }
    }
}

// SAFETY: every access to a cell or array happens under the slot's lock, `take` and `put` move
// whole words between caller and array, and the words below `top`, and only those, are objects.
unsafe impl<C: ChooseSlot> PerCpu for LockedSlots<C> {
    const INERT: Self = Self {
        area: SlotArea::new(),
        first: AtomicU32::new(0),
        count: AtomicU32::new(0),
        choice: C::NEW,
        once: CountedLock::new(false),
    };

    fn init(&self, os: &'static dyn Os) -> OsResult<()> {
        let mut done = self.once.lock();
        if !*done {
            let count = self.choice.slots();
            self.area.reserve(os, count, 0, count)?;
            self.count.store(count, Ordering::Relaxed);
            *done = true;
        }
        Ok(())
    }

    fn area(&self) -> &SlotArea {
        &self.area
    }

    fn current(&self) -> SlotIndex {
        self.slot(self.choice.choose())
    }

    fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("percpu->once", &self.once);
        self.area.visit_locks(visit);
        self.visit_slots(visit);
    }
}

// SAFETY: as for `PerCpu`.
unsafe impl<C: ChooseSlot> Arrays for LockedSlots<C> {
    fn pop(&self, array: ArrayId) -> Option<Object> {
        let slot = self.enter()?;
        let mut one = [MaybeUninit::uninit()];
        if !slot.take(array, &mut one, 1) {
            return None;
        }
        // SAFETY: `take` returned true, so it wrote the element.
        Some(unsafe { one[0].assume_init() })
    }

    fn push(&self, array: ArrayId, object: Object) -> Push {
        let Some(slot) = self.enter() else { return Push::Refused };
        let Some(top) = slot.top_below(array, 1) else { return Push::Refused };
        let mut below = (1..=LOOKED_AT).map(|depth| slot.at(top - depth));
        if below.any(|word| word.load(Ordering::Relaxed) == object.as_ptr() as u64) {
            return Push::Duplicate;
        }
        slot.put(array, &[object], 1);
        Push::Stored
    }

    fn pop_batch(&self, array: ArrayId, out: &mut [MaybeUninit<Object>]) -> bool {
        out.is_empty() || self.enter().is_some_and(|slot| slot.take(array, out, 0))
    }

    fn push_batch(&self, array: ArrayId, objects: &[Object]) -> bool {
        objects.is_empty()
            || self.enter().is_some_and(|slot| {
                let fits = slot.top_below(array, objects.len()).is_some();
                if fits {
                    slot.put(array, objects, 0);
                }
                fits
            })
    }

    fn make_room(&self, array: ArrayId, limits: &Limits, take: &mut Take<'_>) -> bool {
        let bounds = self.area.bounds_lock.lock();
        let place = (self.current(), array);
        self.make_room_in(&bounds, place, limits, take)
    }

    fn widen_within(&self, array: ArrayId, limits: &Limits) -> bool {
        let _bounds = self.area.bounds_lock.lock();
        self.widen_in(self.current(), array, limits)
    }

    fn drain_where(&self, which: &Which<'_>, take: &mut Take<'_>) -> bool {
        for slot in self.slots().filter(|slot| self.area.is_awake(*slot)) {
            let _bounds = self.area.bounds_lock.lock();
            let _slot = lock(&self.area, slot);
            for array in self.area.with_room(slot).filter(|array| which(slot, *array)) {
                self.area.empty_stopped(slot, array, take);
                self.area.reopen(slot, array);
            }
        }
        true
    }
}

// SAFETY: as for `PerCpu`.
unsafe impl<C: ChooseSlot> Lists for LockedSlots<C> {
    // Not inlined, like the next two, because it is the slow path of the sequences.
    #[cfg_attr(not(quarry_no_rseq), inline(never))]
    unsafe fn list_pop(&self, array: ArrayId) -> Option<Object> {
        let slot = self.enter()?;
        let word = slot.word(array, 0);
        let value = word.load(Ordering::Relaxed);
        let head = Object::new(((value >> 20) << 4) as *mut u8)?;
        touch_bytes(head.as_ptr(), size_of::<u64>(), Access::Read);
        // SAFETY: the caller promises that the first word of a listed object is its link.
        let next = unsafe { head.cast::<u64>().read() };
        word.store(((next >> 4) << 20) | ((value & LIST_MAX) - 1), Ordering::Relaxed);
        slot.count(array, 2);
        Some(head)
    }

    #[cfg_attr(not(quarry_no_rseq), inline(never))]
    unsafe fn list_push(&self, array: ArrayId, guard: u64, object: Object) -> Push {
        let Some(slot) = self.enter() else { return Push::Refused };
        if slot.word(array, 1).load(Ordering::Relaxed) != guard {
            return Push::Refused;
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { slot.link(array, LIST_MAX, object) }
    }

    #[cfg_attr(not(quarry_no_rseq), inline(never))]
    unsafe fn list_push_below(&self, array: ArrayId, object: Object) -> Push {
        let Some(slot) = self.enter() else { return Push::Refused };
        let below = u64::from(slot.word(array, 1).load(Ordering::Relaxed) as u32);
        // SAFETY: the caller's promise is passed on.
        unsafe { slot.link(array, below, object) }
    }

    fn compare_store(&self, (slot, array, word): CellWord, expected: u64, new: u64) -> bool {
        // A declared slot is a CPU's: no other CPU may write its cells.
        if !C::MAY_WANDER && slot != self.current() {
            return false;
        }
        let Some(guard) = try_lock(&self.area, slot) else { return false };
        let word = guard.word(array, word);
        let same = word.load(Ordering::Relaxed) == expected;
        if same {
            word.store(new, Ordering::Relaxed);
        }
        same
    }

    fn drain_lists(&self, array: ArrayId, take: &mut TakeList<'_>) -> bool {
        let _bounds = self.area.bounds_lock.lock();
        self.drain_lists_held(array, take);
        true
    }
}

const _: () = assert!(1 << CELL_SHIFT == 4 * size_of::<u64>(), "a cell is four words");
