//! Slots under a try-lock each: for CPUs without sequences, for threads without a registration,
//! for sanitizers, and for tests that say which CPU they are.
//!
//! The same cells and arrays as the sequences use, so one thread may serve both kinds. The lock is
//! one word that holds its owner's thread pointer: single operations only try it, so that nothing
//! on the fast path waits; who must have it (prepare, drain) spins briefly and then naps.

use super::area::SlotArea;
use super::layout::{ArrayId, LIST_MAX, LOOKED_AT, SlotIndex};
use super::limits::Limits;
use super::object::{Object, Push};
use crate::lock::Guard;
use crate::primitive::{Access, AtomicU32, Ordering, relax, task, timer, touch};
use core::mem::MaybeUninit;

/// Stripes tried before an operation gives up and lets the slow path serve.
const TRIES: u32 = 4;

/// Which slot the running thread uses.
pub trait ChooseSlot: Sync {
    /// Its initial value.
    const NEW: Self;
    /// How many slots to reserve.
    fn slots(&self) -> u32;
    /// The preferred slot, any number: it is reduced modulo [`slots`](Self::slots).
    fn choose(&self) -> u32;
    /// Whether a busy slot may be exchanged for its neighbour.
    const MAY_WANDER: bool;
}

/// Spreads threads over stripes by their thread pointer.
pub struct ThreadStripe;

impl ChooseSlot for ThreadStripe {
    const NEW: Self = Self;
    const MAY_WANDER: bool = true;

    fn slots(&self) -> u32 {
        (crate::topology::possible_cpus() * 2).next_power_of_two().clamp(4, 64)
    }

    #[inline]
    fn choose(&self) -> u32 {
        // Fibonacci hashing: thread control blocks are a multiple of a stack size apart.
        ((task::current() as u64 >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32
    }
}

/// Slots `first..first + count` of an area, each under its own try-lock.
pub(super) struct Stripes {
    pub(super) first: AtomicU32,
    pub(super) count: AtomicU32,
}

/// Rounds of spinning before a waiter naps; as in `lock`.
const SPIN_ROUNDS: u32 = 100;

/// Proof that a slot's control word is held.
struct Held<'a>(&'a SlotArea, SlotIndex);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.control(self.1).store(0, Ordering::Release);
    }
}

fn try_hold(area: &SlotArea, slot: SlotIndex) -> Option<Held<'_>> {
    let me = task::current() as u64;
    let word = area.control(slot);
    area.note_held(slot);
    let free = word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
    free.then(|| Held(area, slot))
}

fn hold(area: &SlotArea, slot: SlotIndex) -> Held<'_> {
    let mut rounds = 0;
    loop {
        if let Some(held) = try_hold(area, slot) {
            return held;
        }
        if area.control(slot).load(Ordering::Relaxed) == task::current() as u64 {
            crate::report::entered_again();
        }
        rounds += 1;
        if rounds > SPIN_ROUNDS { timer::nap() } else { relax() }
    }
}

impl Stripes {
    pub(super) const fn new() -> Self {
        Self { first: AtomicU32::new(0), count: AtomicU32::new(0) }
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = SlotIndex> {
        let first = self.first.load(Ordering::Relaxed);
        (first..first + self.count.load(Ordering::Relaxed)).map(SlotIndex)
    }

    #[inline]
    fn slot(&self, hint: u32) -> SlotIndex {
        let count = self.count.load(Ordering::Relaxed);
        SlotIndex(self.first.load(Ordering::Relaxed) + hint % count)
    }

    fn enter<'a, C: ChooseSlot>(&self, area: &'a SlotArea, choice: &C) -> Option<Held<'a>> {
        let hint = choice.choose();
        let tries = if C::MAY_WANDER { TRIES } else { 1 };
        (0..tries).find_map(|try_| try_hold(area, self.slot(hint.wrapping_add(try_))))
    }

    pub(super) fn current<C: ChooseSlot>(&self, choice: &C) -> SlotIndex {
        self.slot(choice.choose())
    }

    pub(super) fn pop<C: ChooseSlot>(
        &self,
        area: &SlotArea,
        choice: &C,
        array: ArrayId,
    ) -> Option<Object> {
        let held = self.enter(area, choice)?;
        let mut one = [MaybeUninit::uninit()];
        if !take(area, held.1, array, &mut one, 1) {
            return None;
        }
        // SAFETY: `take` returned true, so it wrote the element.
        Some(unsafe { one[0].assume_init() })
    }

    pub(super) fn push<C: ChooseSlot>(
        &self,
        area: &SlotArea,
        choice: &C,
        array: ArrayId,
        object: Object,
    ) -> Push {
        let Some(held) = self.enter(area, choice) else { return Push::Refused };
        let Some(top) = room(area, held.1, array, 1) else { return Push::Refused };
        let mut below = (1..=LOOKED_AT).map(|depth| area.at(held.1, top - depth));
        if below.any(|word| word.load(Ordering::Relaxed) == object.as_ptr() as u64) {
            return Push::Duplicate;
        }
        put(area, held.1, array, &[object], 1);
        Push::Stored
    }

    pub(super) fn pop_batch<C: ChooseSlot>(
        &self,
        area: &SlotArea,
        choice: &C,
        array: ArrayId,
        out: &mut [MaybeUninit<Object>],
    ) -> bool {
        self.enter(area, choice).is_some_and(|held| take(area, held.1, array, out, 0))
    }

    pub(super) fn push_batch<C: ChooseSlot>(
        &self,
        area: &SlotArea,
        choice: &C,
        array: ArrayId,
        objects: &[Object],
    ) -> bool {
        self.enter(area, choice).is_some_and(|held| {
            let fits = room(area, held.1, array, objects.len()).is_some();
            if fits {
                put(area, held.1, array, objects, 0);
            }
            fits
        })
    }

    /// # Safety
    /// As [`Lists::list_pop`](super::Lists::list_pop).
    pub(super) unsafe fn list_pop<C: ChooseSlot>(
        &self,
        area: &SlotArea,
        choice: &C,
        array: ArrayId,
    ) -> Option<Object> {
        let held = self.enter(area, choice)?;
        let word = area.word(held.1, array, 0);
        let value = word.load(Ordering::Relaxed);
        let head = Object::new(((value >> 20) << 4) as *mut u8)?;
        touch::touch_bytes(head.as_ptr(), size_of::<u64>(), Access::Read);
        // SAFETY: the caller promises that the first word of a listed object is its link.
        let next = unsafe { head.cast::<u64>().read() };
        word.store(((next >> 4) << 20) | ((value & LIST_MAX) - 1), Ordering::Relaxed);
        bump(area, held.1, array, 2);
        Some(head)
    }

    /// # Safety
    /// As [`Lists::list_push`](super::Lists::list_push).
    pub(super) unsafe fn list_push<C: ChooseSlot>(
        &self,
        area: &SlotArea,
        choice: &C,
        array: ArrayId,
        guard: u64,
        object: Object,
    ) -> Push {
        let Some(held) = self.enter(area, choice) else { return Push::Refused };
        if area.word(held.1, array, 1).load(Ordering::Relaxed) != guard {
            return Push::Refused;
        }
        let word = area.word(held.1, array, 0);
        let value = word.load(Ordering::Relaxed);
        let head = (value >> 20) << 4;
        if head == object.as_ptr() as u64 {
            return Push::Duplicate;
        }
        if value & LIST_MAX == LIST_MAX {
            return Push::Refused;
        }
        touch::touch_bytes(object.as_ptr(), size_of::<u64>(), Access::Write);
        // SAFETY: the caller owns the object and lets its first word be overwritten.
        unsafe { object.cast::<u64>().write(head) };
        let address = object.as_ptr() as u64;
        word.store(((address >> 4) << 20) | ((value & LIST_MAX) + 1), Ordering::Relaxed);
        bump(area, held.1, array, 3);
        Push::Stored
    }

    pub(super) fn compare_store(
        &self,
        area: &SlotArea,
        slot: SlotIndex,
        array: ArrayId,
        word: usize,
        expected: u64,
        new: u64,
    ) -> bool {
        let Some(_held) = try_hold(area, slot) else { return false };
        let word = area.word(slot, array, word);
        let same = word.load(Ordering::Relaxed) == expected;
        if same {
            word.store(new, Ordering::Relaxed);
        }
        same
    }

    /// See [`Arrays::make_room`](super::Arrays::make_room). The caller holds the lock of the
    /// bounds.
    pub(super) fn make_room(
        &self,
        area: &SlotArea,
        bounds: &Guard<'_, ()>,
        (slot, array): (SlotIndex, ArrayId),
        limits: &Limits,
        take: &mut dyn FnMut(ArrayId, &[Object]),
    ) -> bool {
        // Lock order: bounds before slots, as in drain and fork.
        let held = hold(area, slot);
        area.make_room_held(bounds, (held.1, array), limits, |unused| {
            area.empty_stopped(slot, unused, take);
            area.reopen(slot, unused);
            true
        })
    }

    /// See [`Arrays::widen_within`](super::Arrays::widen_within). The caller holds the lock of the
    /// bounds.
    pub(super) fn widen(
        &self,
        area: &SlotArea,
        slot: SlotIndex,
        array: ArrayId,
        limits: &Limits,
    ) -> bool {
        let Some(wide) = area.free_wide_place(slot, array, limits) else { return false };
        let _held = hold(area, slot);
        area.widen_stopped(slot, array, wide);
        area.reopen(slot, array);
        true
    }

    /// See [`Arrays::drain_where`](super::Arrays::drain_where).
    pub(super) fn drain(
        &self,
        area: &SlotArea,
        which: &dyn Fn(SlotIndex, ArrayId) -> bool,
        take: &mut dyn FnMut(ArrayId, &[Object]),
    ) {
        for slot in self.slots().filter(|slot| area.is_awake(*slot)) {
            let _bounds = area.bounds_lock.lock();
            let _held = hold(area, slot);
            for array in area.with_room(slot).filter(|array| which(slot, *array)) {
                area.empty_stopped(slot, array, take);
                area.reopen(slot, array);
            }
        }
    }

    pub(super) fn drain_lists(
        &self,
        area: &SlotArea,
        array: ArrayId,
        take: &mut dyn FnMut(u64, Option<Object>, usize),
    ) {
        for slot in self.slots() {
            let _held = hold(area, slot);
            let guard = area.word(slot, array, 1).load(Ordering::Relaxed);
            area.empty_list(slot, array, guard, take);
        }
    }

    /// In the child of a fork: whoever held a stripe is not there, unless it is the caller. Its
    /// operation has stored its one word, or not.
    pub(super) fn free_in_child(&self, area: &SlotArea) {
        let me = task::current() as u64;
        for slot in self.slots().filter(|slot| area.was_held(*slot)) {
            let word = area.control(slot);
            if ![0, me].contains(&word.load(Ordering::Relaxed)) {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

fn bump(area: &SlotArea, slot: SlotIndex, array: ArrayId, word: usize) {
    let word = area.word(slot, array, word);
    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// What a cell of a held slot says of its array: header, begin, end. `begin > end` where the array
/// has not been opened.
fn extent(area: &SlotArea, slot: SlotIndex, array: ArrayId) -> (u64, usize, usize) {
    let header = area.word(slot, array, 0).load(Ordering::Relaxed);
    let bounds = area.word(slot, array, 1).load(Ordering::Relaxed);
    (header, (!bounds & 0xffff) as usize, (bounds >> 16 & 0xffff) as usize)
}

/// Takes the top `out.len()` objects of a held slot, adding `operations` to the header's count.
fn take(
    area: &SlotArea,
    slot: SlotIndex,
    array: ArrayId,
    out: &mut [MaybeUninit<Object>],
    operations: u64,
) -> bool {
    let (header, begin, _) = extent(area, slot, array);
    let top = (header & 0xffff) as usize;
    if top < begin + out.len() {
        return false;
    }
    let bottom = top - out.len();
    for (offset, object) in out.iter_mut().enumerate() {
        let address = area.at(slot, bottom + offset).load(Ordering::Relaxed) as *mut u8;
        object.write(Object::new(address).expect("arrays hold no null"));
    }
    set_top(area, slot, array, header, operations, bottom);
    true
}

/// The top of a held slot's array if `count` more objects fit on it.
fn room(area: &SlotArea, slot: SlotIndex, array: ArrayId, count: usize) -> Option<usize> {
    let (header, _, end) = extent(area, slot, array);
    let top = (header & 0xffff) as usize;
    (count <= end.saturating_sub(top)).then_some(top)
}

/// Puts `objects` on top of a held slot's array, which has room for them.
fn put(area: &SlotArea, slot: SlotIndex, array: ArrayId, objects: &[Object], operations: u64) {
    let (header, ..) = extent(area, slot, array);
    let top = (header & 0xffff) as usize;
    for (offset, object) in objects.iter().enumerate() {
        area.at(slot, top + offset).store(object.as_ptr() as u64, Ordering::Relaxed);
    }
    set_top(area, slot, array, header, operations, top + objects.len());
}

fn set_top(
    area: &SlotArea,
    slot: SlotIndex,
    array: ArrayId,
    header: u64,
    operations: u64,
    top: usize,
) {
    // The count has 48 bits and wraps, as it does in the sequences.
    let counted = header.wrapping_add(operations << 16) & !0xffff;
    area.word(slot, array, 0).store(counted | top as u64, Ordering::Relaxed);
}
