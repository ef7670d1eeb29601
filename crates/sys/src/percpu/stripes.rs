//! Stripes: slots under a try-lock each, for CPUs without restartable sequences, threads without a
//! registration, sanitizers, and tests and simulators that declare the CPU of a thread.
//!
//! Stripes have the cells and arrays that sequences use, so one drain serves both kinds. A stripe's
//! lock is a word that holds its owner's task. Pushes and pops only try the lock, so that no fast
//! path waits; `prepare` and `drain` wait for it: they spin briefly and then nap.

use super::area::SlotArea;
use super::layout::{ArrayId, LIST_MAX, LOOKED_AT, SlotIndex};
use super::object::{Object, Push};
use super::room::Limits;
use crate::lock::{Guard, LockStats};
use crate::locks::{AnyLock, Visit};
use crate::primitive::announce;
use crate::primitive::touch::touch_bytes;
use crate::primitive::{Access, AtomicU32, AtomicU64, Ordering, relax, task, timer};
use core::mem::MaybeUninit;

/// Stripes that an operation tries to lock before the slow path takes over.
const TRIES: u32 = 4;

/// Chooses the slot that the running thread uses.
pub trait ChooseSlot: Sync {
    /// The initial value.
    const NEW: Self;
    /// Number of slots to reserve.
    fn slots(&self) -> u32;
    /// The preferred slot: any number, reduced modulo [`slots`](Self::slots) by the caller.
    fn choose(&self) -> u32;
    /// True if a thread may use a neighbouring slot while its own is locked.
    const MAY_WANDER: bool;
}

/// Chooses a stripe by a hash of the thread's task.
pub struct ThreadStripe;

impl ChooseSlot for ThreadStripe {
    const NEW: Self = Self;
    const MAY_WANDER: bool = true;

    fn slots(&self) -> u32 {
        (crate::topology::possible_cpus() * 2).next_power_of_two().clamp(4, 64)
    }

    #[inline]
    fn choose(&self) -> u32 {
        // Fibonacci hashing: thread control blocks often lie multiples of a stack's size apart.
        ((task::current() as u64 >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32
    }
}

/// Slots `first..first + count` of an area, each under its own try-lock.
pub(super) struct Stripes<C> {
    pub(super) first: AtomicU32,
    pub(super) count: AtomicU32,
    pub(super) choice: C,
}

/// Rounds of spinning before a waiting task naps, as in `lock`.
const SPIN_ROUNDS: u32 = 100;

/// Proof that a slot is locked. Dropping the guard unlocks the slot.
struct SlotGuard<'a> {
    area: &'a SlotArea,
    slot: SlotIndex,
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        self.area.control(self.slot).store(0, Ordering::Release);
        announce::sequence_ends();
    }
}

/// The contents of an array's cell. `begin > end` where the array has not been opened.
struct Cell {
    header: u64,
    begin: usize,
    end: usize,
}

impl Cell {
    fn top(&self) -> usize {
        (self.header & 0xffff) as usize
    }
}

impl SlotGuard<'_> {
    fn word(&self, array: ArrayId, word: usize) -> &AtomicU64 {
        self.area.word(self.slot, array, word)
    }

    fn at(&self, index: usize) -> &AtomicU64 {
        self.area.at(self.slot, index)
    }

    fn cell(&self, array: ArrayId) -> Cell {
        let header = self.word(array, 0).load(Ordering::Relaxed);
        let bounds = self.word(array, 1).load(Ordering::Relaxed);
        let (begin, end) = ((!bounds & 0xffff) as usize, (bounds >> 16 & 0xffff) as usize);
        Cell { header, begin, end }
    }

    /// Puts an object at the head of the list, if the list has fewer than `below` objects.
    ///
    /// # Safety
    /// See [`Lists::list_push`](super::Lists::list_push).
    unsafe fn link(&self, array: ArrayId, below: u64, object: Object) -> Push {
        let word = self.word(array, 0);
        let value = word.load(Ordering::Relaxed);
        let (head, address) = ((value >> 20) << 4, object.as_ptr() as u64);
        if head == address {
            return Push::Duplicate;
        }
        if value & LIST_MAX >= below {
            return Push::Refused;
        }
        touch_bytes(object.as_ptr(), size_of::<u64>(), Access::Write);
        // SAFETY: the caller owns the object and lets its first word be overwritten.
        unsafe { object.cast::<u64>().write(head) };
        word.store(((address >> 4) << 20) | ((value & LIST_MAX) + 1), Ordering::Relaxed);
        self.count(array, 3);
        Push::Stored
    }

    fn count(&self, array: ArrayId, word: usize) {
        let word = self.word(array, word);
        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn set_top(&self, array: ArrayId, header: u64, operations: u64, top: usize) {
        // The count has 48 bits and wraps around, as in the sequences.
        let counted = header.wrapping_add(operations << 16) & !0xffff;
        self.word(array, 0).store(counted | top as u64, Ordering::Relaxed);
    }

    /// Takes the top `out.len()` objects if the array has as many; adds `operations` to the header.
    fn take(&self, array: ArrayId, out: &mut [MaybeUninit<Object>], operations: u64) -> bool {
        let cell = self.cell(array);
        if cell.top() < cell.begin + out.len() {
            return false;
        }
        let bottom = cell.top() - out.len();
        for (offset, object) in out.iter_mut().enumerate() {
            let address = self.at(bottom + offset).load(Ordering::Relaxed) as *mut u8;
            object.write(Object::new(address).expect("arrays hold no null"));
        }
        self.set_top(array, cell.header, operations, bottom);
        true
    }

    fn top_below(&self, array: ArrayId, count: usize) -> Option<usize> {
        let cell = self.cell(array);
        (count <= cell.end.saturating_sub(cell.top())).then_some(cell.top())
    }

    /// Puts `objects` on top of the array, which has room; adds `operations` to the header.
    fn put(&self, array: ArrayId, objects: &[Object], operations: u64) {
        let cell = self.cell(array);
        let top = cell.top();
        for (offset, object) in objects.iter().enumerate() {
            self.at(top + offset).store(object.as_ptr() as u64, Ordering::Relaxed);
        }
        self.set_top(array, cell.header, operations, top + objects.len());
    }
}

fn try_lock(area: &SlotArea, slot: SlotIndex) -> Option<SlotGuard<'_>> {
    let me = task::current() as u64;
    let word = area.control(slot);
    announce::sequence_begins(core::ptr::from_ref(word) as usize);
    area.note_locked(slot);
    let is_free = word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if !is_free {
        announce::sequence_ends();
    }
    is_free.then(|| SlotGuard { area, slot })
}

fn lock(area: &SlotArea, slot: SlotIndex) -> SlotGuard<'_> {
    let mut rounds = 0;
    loop {
        if let Some(guard) = try_lock(area, slot) {
            return guard;
        }
        if area.control(slot).load(Ordering::Relaxed) == task::current() as u64 {
            crate::report::entered_again();
        }
        rounds += 1;
        if rounds > SPIN_ROUNDS { timer::nap() } else { relax() }
    }
}

impl<C: ChooseSlot> Stripes<C> {
    pub(super) const fn new() -> Self {
        Self { first: AtomicU32::new(0), count: AtomicU32::new(0), choice: C::NEW }
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

    fn enter<'a>(&self, area: &'a SlotArea) -> Option<SlotGuard<'a>> {
        let hint = self.choice.choose();
        let tries = if C::MAY_WANDER { TRIES } else { 1 };
        (0..tries).find_map(|try_| try_lock(area, self.slot(hint.wrapping_add(try_))))
    }

    pub(super) fn current(&self) -> SlotIndex {
        self.slot(self.choice.choose())
    }

    pub(super) fn pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object> {
        let slot = self.enter(area)?;
        let mut one = [MaybeUninit::uninit()];
        if !slot.take(array, &mut one, 1) {
            return None;
        }
        // SAFETY: `take` returned true, so it wrote the element.
        Some(unsafe { one[0].assume_init() })
    }

    pub(super) fn push(&self, area: &SlotArea, array: ArrayId, object: Object) -> Push {
        let Some(slot) = self.enter(area) else { return Push::Refused };
        let Some(top) = slot.top_below(array, 1) else { return Push::Refused };
        let mut below = (1..=LOOKED_AT).map(|depth| slot.at(top - depth));
        if below.any(|word| word.load(Ordering::Relaxed) == object.as_ptr() as u64) {
            return Push::Duplicate;
        }
        slot.put(array, &[object], 1);
        Push::Stored
    }

    pub(super) fn pop_batch(
        &self,
        area: &SlotArea,
        array: ArrayId,
        out: &mut [MaybeUninit<Object>],
    ) -> bool {
        self.enter(area).is_some_and(|slot| slot.take(array, out, 0))
    }

    pub(super) fn push_batch(&self, area: &SlotArea, array: ArrayId, objects: &[Object]) -> bool {
        self.enter(area).is_some_and(|slot| {
            let fits = slot.top_below(array, objects.len()).is_some();
            if fits {
                slot.put(array, objects, 0);
            }
            fits
        })
    }

    /// Not inlined, because it is the slow path of the sequences.
    ///
    /// # Safety
    /// See [`Lists::list_pop`](super::Lists::list_pop).
    #[cfg_attr(
        all(any(target_arch = "x86_64", target_arch = "aarch64"), not(quarry_no_rseq)),
        inline(never)
    )]
    pub(super) unsafe fn list_pop(&self, area: &SlotArea, array: ArrayId) -> Option<Object> {
        let slot = self.enter(area)?;
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

    /// Not inlined, because it is the slow path of the sequences.
    ///
    /// # Safety
    /// See [`Lists::list_push`](super::Lists::list_push).
    #[cfg_attr(
        all(any(target_arch = "x86_64", target_arch = "aarch64"), not(quarry_no_rseq)),
        inline(never)
    )]
    pub(super) unsafe fn list_push(
        &self,
        area: &SlotArea,
        array: ArrayId,
        guard: u64,
        object: Object,
    ) -> Push {
        let Some(slot) = self.enter(area) else { return Push::Refused };
        if slot.word(array, 1).load(Ordering::Relaxed) != guard {
            return Push::Refused;
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { slot.link(array, LIST_MAX, object) }
    }

    /// Not inlined, because it is the slow path of the sequences.
    ///
    /// # Safety
    /// See [`Lists::list_push_below`](super::Lists::list_push_below).
    #[cfg_attr(
        all(any(target_arch = "x86_64", target_arch = "aarch64"), not(quarry_no_rseq)),
        inline(never)
    )]
    pub(super) unsafe fn list_push_below(
        &self,
        area: &SlotArea,
        array: ArrayId,
        object: Object,
    ) -> Push {
        let Some(slot) = self.enter(area) else { return Push::Refused };
        let below = u64::from(slot.word(array, 1).load(Ordering::Relaxed) as u32);
        // SAFETY: the caller's promise is passed on.
        unsafe { slot.link(array, below, object) }
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
        let Some(guard) = try_lock(area, slot) else { return false };
        let word = guard.word(array, word);
        let same = word.load(Ordering::Relaxed) == expected;
        if same {
            word.store(new, Ordering::Relaxed);
        }
        same
    }

    /// See [`Arrays::make_room`](super::Arrays::make_room). The caller holds `bounds_lock`.
    pub(super) fn make_room(
        &self,
        area: &SlotArea,
        bounds: &Guard<'_, ()>,
        (slot, array): (SlotIndex, ArrayId),
        limits: &Limits,
        take: &mut dyn FnMut(ArrayId, &[Object]),
    ) -> bool {
        // Lock order: bounds before slots, as in a drain and a fork.
        let _slot = lock(area, slot);
        area.make_room_held(bounds, (slot, array), limits, |unused| {
            area.empty_stopped(slot, unused, take);
            area.reopen(slot, unused);
            true
        })
    }

    /// See [`Arrays::widen_within`](super::Arrays::widen_within). The caller holds `bounds_lock`.
    pub(super) fn widen(
        &self,
        area: &SlotArea,
        slot: SlotIndex,
        array: ArrayId,
        limits: &Limits,
    ) -> bool {
        let Some(wide) = area.free_wide_place(slot, array, limits) else { return false };
        let _slot = lock(area, slot);
        area.widen_stopped(slot, array, wide);
        area.reopen(slot, array);
        true
    }

    pub(super) fn drain(
        &self,
        area: &SlotArea,
        which: &dyn Fn(SlotIndex, ArrayId) -> bool,
        take: &mut dyn FnMut(ArrayId, &[Object]),
    ) {
        for slot in self.slots().filter(|slot| area.is_awake(*slot)) {
            let _bounds = area.bounds_lock.lock();
            let _slot = lock(area, slot);
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
            let _slot = lock(area, slot);
            let guard = area.word(slot, array, 1).load(Ordering::Relaxed);
            area.empty_list(slot, array, guard, take);
        }
    }

    pub(super) fn visit_locks(&self, area: &SlotArea, visit: &mut Visit<'_>) {
        for slot in self.slots().filter(|slot| area.was_locked(*slot)) {
            visit("percpu->stripe", &Stripe(area.control(slot)));
        }
    }
}

/// The lock of one stripe: the task that holds the lock, or 0.
struct Stripe<'a>(&'a AtomicU64);

impl AnyLock for Stripe<'_> {
    fn is_free(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn stats(&self) -> Option<LockStats> {
        None
    }

    /// Unlocks the stripe in the child of a fork, unless the calling task holds it. Any other
    /// holder does not exist in the child; it has stored the cell's new header, or changed nothing.
    fn adopt_in_child(&self) {
        let me = task::current() as u64;
        if ![0, me].contains(&self.0.load(Ordering::Relaxed)) {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}
