//! A stripe: a slot under its try-lock. Stripes have the cells and arrays that sequences use, so
//! one drain empties CPUs' slots and stripes. The lock is a word that holds its owner's task.

use super::area::SlotArea;
use super::layout::{ArrayId, LIST_MAX, SlotIndex};
use super::object::{Object, Push};
use crate::lock::LockStats;
use crate::locks::AnyLock;
use crate::primitive::announce;
use crate::primitive::touch::touch_bytes;
use crate::primitive::{Access, AtomicU64, Ordering, relax, task, timer};
use core::mem::MaybeUninit;

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

/// Rounds of spinning before a waiting task naps, as in `lock`.
const SPIN_ROUNDS: u32 = 100;

/// Proof that a slot is locked. Dropping the guard unlocks the slot.
pub(super) struct SlotGuard<'a> {
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
    pub(super) fn word(&self, array: ArrayId, word: usize) -> &AtomicU64 {
        self.area.word(self.slot, array, word)
    }

    pub(super) fn at(&self, index: usize) -> &AtomicU64 {
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
    pub(super) unsafe fn link(&self, array: ArrayId, below: u64, object: Object) -> Push {
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

    pub(super) fn count(&self, array: ArrayId, word: usize) {
        let word = self.word(array, word);
        word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn set_top(&self, array: ArrayId, header: u64, operations: u64, top: usize) {
        // The count has 48 bits and wraps around, as in the sequences.
        let counted = header.wrapping_add(operations << 16) & !0xffff;
        self.word(array, 0).store(counted | top as u64, Ordering::Relaxed);
    }

    /// Takes the top `out.len()` objects if the array has as many; adds `operations` to the header.
    pub(super) fn take(
        &self,
        array: ArrayId,
        out: &mut [MaybeUninit<Object>],
        operations: u64,
    ) -> bool {
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

    pub(super) fn top_below(&self, array: ArrayId, count: usize) -> Option<usize> {
        let cell = self.cell(array);
        (count <= cell.end.saturating_sub(cell.top())).then_some(cell.top())
    }

    /// Puts `objects` on top of the array, which has room; adds `operations` to the header.
    pub(super) fn put(&self, array: ArrayId, objects: &[Object], operations: u64) {
        let cell = self.cell(array);
        let top = cell.top();
        for (offset, object) in objects.iter().enumerate() {
            self.at(top + offset).store(object.as_ptr() as u64, Ordering::Relaxed);
        }
        self.set_top(array, cell.header, operations, top + objects.len());
    }
}

pub(super) fn try_lock(area: &SlotArea, slot: SlotIndex) -> Option<SlotGuard<'_>> {
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

pub(super) fn lock(area: &SlotArea, slot: SlotIndex) -> SlotGuard<'_> {
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

/// The lock of one stripe: the task that holds the lock, or 0.
pub(super) struct Stripe<'a>(pub(super) &'a AtomicU64);

impl AnyLock for Stripe<'_> {
    fn is_free(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn stats(&self) -> Option<LockStats> {
        None
    }

    /// Unlocks the stripe in the child of a fork, unless the calling task holds it. Another holder
    /// does not exist in the child; it had stored the cell's new header, or had changed nothing.
    fn adopt_in_child(&self) {
        let me = task::current() as u64;
        if ![0, me].contains(&self.0.load(Ordering::Relaxed)) {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}
