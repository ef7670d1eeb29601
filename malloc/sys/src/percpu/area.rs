//! The memory of the slots: its reservation, its words, and the places of the arrays in it.

use super::layout::{
    ArrayId, CELL_SHIFT, FIRST_WIDE, FIRST_WORD, LAST_WORD, LOOKED_AT, MAX_ARRAYS, PLACE, Place,
    SLOT_BYTES, SLOT_SHIFT, SlotIndex, WIDE_OBJECTS,
};
use super::object::Object;
use crate::lock::CountedLock;
use crate::locks::Visit;
use crate::os::{Os, OsError, OsResult};
use crate::primitive::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use core::ptr::NonNull;

/// Maximum number of guard slots, for numbers that no CPU should have: 16 MiB of addresses, which
/// read as zero. An access to a slot with a still higher number faults.
const MOST_GUARDS: u32 = 64;

/// Bytes of a slot populated by one call: the cells, and the arrays of twelve size classes.
const POPULATED_BYTES: usize = 16 << 10;

/// Number of slots with a bit in `awake`: those of 1,024 CPUs, and stripes. A slot beyond them
/// counts as awake from its first use on.
const TRACKED: u32 = 1024 + 64;

/// Fewest objects that `fair_capacity` gives an array, however many arrays are defined.
const FEWEST_DEFINED: usize = 8;

#[repr(C)]
pub(super) struct Rooms {
    /// Bytes for which all arrays together have room.
    pub(super) all: AtomicUsize,
    /// Bytes of one object of each array; 0 counts as 1.
    pub(super) each: [AtomicU32; MAX_ARRAYS],
    pub(super) awake: [AtomicU64; (TRACKED / 64) as usize],
    /// Operations that arrays counted in slots that have fallen asleep since.
    pub(super) operations: [AtomicU64; MAX_ARRAYS],
}

impl Rooms {
    pub(super) const fn new() -> Self {
        Self {
            all: AtomicUsize::new(0),
            each: [const { AtomicU32::new(0) }; MAX_ARRAYS],
            awake: [const { AtomicU64::new(0) }; (TRACKED / 64) as usize],
            operations: [const { AtomicU64::new(0) }; MAX_ARRAYS],
        }
    }

    pub(super) fn operations_asleep(&self, array: ArrayId) -> u64 {
        self.operations[array.index()].load(Ordering::Relaxed)
    }
}

/// The reservation that holds all slots, and the layout that they share.
///
/// ```text
/// | stripes, the last one first | slots of CPUs | numbers that no CPU should have |
///                               ^ base
/// ```
///
/// Sequences compute a slot's address from whatever number the kernel returns, and a container may
/// forge the number of possible CPUs in `/sys`. So the third part (up to the size of the kernel's
/// CPU mask, at most 64 slots) reads as zero: there every cell is closed, and sequences refuse.
pub struct SlotArea {
    pub(super) base: AtomicUsize,
    slots: AtomicU32,
    /// Slots `0..cpus` lie above the base, the stripes below it.
    cpus: AtomicU32,
    reserved: AtomicU32,
    /// Capacity of each array in its narrow place, 0 where the array is not defined.
    pub(super) narrow: [AtomicU32; MAX_ARRAYS],
    /// Words of each array's narrow place: its capacity when it was first defined.
    place_words: [AtomicU32; MAX_ARRAYS],
    /// Capacity of each array in a wide place, 0 where the array has only its narrow one.
    pub(super) wide: [AtomicU32; MAX_ARRAYS],
    /// Words of a slot that the narrow places of all defined arrays occupy.
    laid_out: AtomicU32,
    /// Held while bounds or layouts change: by prepare, drain and define.
    pub(super) bounds_lock: CountedLock<()>,
    pub(super) rooms: Rooms,
    pub(super) barriers: AtomicU64,
    pub(super) left: AtomicU64,
    /// Bit `n % 64` is set once any task has tried to lock slot `n`.
    ever_locked: AtomicU64,
}

impl SlotArea {
    /// An area without memory.
    pub(super) const fn new() -> Self {
        Self {
            base: AtomicUsize::new(0),
            slots: AtomicU32::new(0),
            cpus: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            narrow: [const { AtomicU32::new(0) }; MAX_ARRAYS],
            place_words: [const { AtomicU32::new(0) }; MAX_ARRAYS],
            wide: [const { AtomicU32::new(0) }; MAX_ARRAYS],
            laid_out: AtomicU32::new(0),
            bounds_lock: CountedLock::new(()),
            rooms: Rooms::new(),
            barriers: AtomicU64::new(0),
            left: AtomicU64::new(0),
            ever_locked: AtomicU64::new(0),
        }
    }

    /// Reserves slots for `cpus` CPUs and for `stripes` stripes, as one mapping, because a fork
    /// pays for each mapping. Slots of the numbers `cpus..numbers` read as zero, or fault if there
    /// are too few addresses for them. A slot occupies memory only after a CPU has used it.
    pub(super) fn reserve(
        &self,
        os: &dyn Os,
        cpus: u32,
        stripes: u32,
        numbers: u32,
    ) -> OsResult<()> {
        let (slots, guards) = (cpus + stripes, numbers.saturating_sub(cpus).min(MOST_GUARDS));
        let bytes = |slots: u32| slots as usize * SLOT_BYTES;
        let (start, reserved) = match os.reserve(bytes(slots + guards)) {
            Ok(start) => (start, slots + guards),
            Err(error) if guards == 0 => return Err(error),
            Err(_) => (os.reserve(bytes(slots))?, slots),
        };
        let base = start.as_ptr() as usize + bytes(stripes);
        self.slots.store(slots, Ordering::Relaxed);
        self.cpus.store(cpus, Ordering::Relaxed);
        self.reserved.store(reserved, Ordering::Relaxed);
        self.base.store(base, Ordering::Release);
        Ok(())
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// `os` is the one that reserved the area, and no code uses the slots now or later.
    pub unsafe fn release(&self, os: &dyn Os) {
        let bytes = self.reserved.load(Ordering::Relaxed) as usize * SLOT_BYTES;
        let stripes = (self.slots() - self.cpus.load(Ordering::Relaxed)) as usize;
        let base = self.base.swap(0, Ordering::Relaxed);
        if let Some(start) = NonNull::new(base.saturating_sub(stripes * SLOT_BYTES) as *mut u8) {
            // SAFETY: `reserve` reserved exactly this; the caller promises that it is unused.
            unsafe { os.release(start, bytes) };
        }
    }

    /// Brings the cells and the first arrays of a slot into memory by one call. Otherwise a
    /// starting program would fault their pages in one by one. A hint.
    pub fn populate(&self, os: &dyn Os, slot: SlotIndex) {
        let start = NonNull::from(self.control(slot)).cast();
        // If the OS refuses, page faults bring the pages in later.
        let _ = os.populate(start, POPULATED_BYTES.next_multiple_of(os.page_size()));
    }

    /// Number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    /// Number of barriers that drains have requested so far.
    #[must_use]
    pub fn barriers(&self) -> u64 {
        self.barriers.load(Ordering::Relaxed)
    }

    /// Number of sequences so far that left for a slow path because they were interrupted too
    /// often, as those of a thread that a debugger steps are. Threads add their own late.
    #[must_use]
    pub fn interrupted(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Gives `array` a place for `capacity` objects in every slot: once, before its first use
    /// ([`define_again`](Self::define_again) is for later), and never for the cell of a list.
    ///
    /// # Errors
    /// `ENOMEM` where the slot's words are used up, `EEXIST` where the array has room already.
    pub fn define(&self, array: ArrayId, capacity: usize) -> OsResult<()> {
        let _held = self.bounds_lock.lock();
        if self.capacity(array) != 0 {
            return Err(OsError(libc::EEXIST));
        }
        let laid_out = self.laid_out.load(Ordering::Relaxed) as usize;
        let words = (laid_out + LOOKED_AT).saturating_add(capacity);
        if words > FIRST_WIDE - FIRST_WORD {
            return Err(OsError(libc::ENOMEM));
        }
        self.laid_out.store(words as u32, Ordering::Relaxed);
        self.narrow[array.index()].store(capacity as u32, Ordering::Relaxed);
        self.place_words[array.index()].store(capacity as u32, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the capacity with which one more array can be defined: eight objects, plus a quarter
    /// of the words that remain if it and `others` arrays after it get eight objects each.
    #[must_use]
    pub fn fair_capacity(&self, others: usize) -> usize {
        let laid_out = self.laid_out.load(Ordering::Relaxed) as usize;
        let others = (others + 1) * (LOOKED_AT + FEWEST_DEFINED);
        let left = (FIRST_WIDE - FIRST_WORD).saturating_sub(laid_out + others);
        FEWEST_DEFINED + left / 4
    }

    pub(super) fn place_words(&self, array: ArrayId) -> usize {
        self.place_words[array.index()].load(Ordering::Relaxed) as usize
    }

    /// Allows [`widen`](super::Arrays::widen) to move `array` to a wide place, where it holds up to
    /// `capacity` objects, at most [`WIDE_OBJECTS`].
    pub fn define_wide(&self, array: ArrayId, capacity: usize) {
        self.wide[array.index()].store(capacity.min(WIDE_OBJECTS) as u32, Ordering::Relaxed);
    }

    /// Objects that `array` can hold in its narrow place, 0 where it is not defined.
    #[must_use]
    pub fn capacity(&self, array: ArrayId) -> usize {
        self.narrow[array.index()].load(Ordering::Relaxed) as usize
    }

    /// Returns the narrow place that `array` owns in `slot`, and the place where it lies now.
    pub(super) fn places(&self, slot: SlotIndex, array: ArrayId) -> (Place, Place) {
        let word = self.word(slot, array, PLACE).load(Ordering::Relaxed);
        (Place((word >> 32) as u32), Place(word as u32))
    }

    pub(super) fn set_places(&self, slot: SlotIndex, array: ArrayId, narrow: Place, now: Place) {
        let word = u64::from(narrow.0) << 32 | u64::from(now.0);
        self.word(slot, array, PLACE).store(word, Ordering::Relaxed);
    }

    pub(super) fn place(&self, slot: SlotIndex, array: ArrayId) -> Place {
        self.places(slot, array).1
    }

    /// Returns whether `array` of `slot` lies in a wide place.
    #[must_use]
    pub fn is_wide(&self, slot: SlotIndex, array: ArrayId) -> bool {
        let (narrow, now) = self.places(slot, array);
        narrow.begin() != now.begin()
    }

    /// Objects in one slot's array. O(1).
    #[must_use]
    pub fn slot_level(&self, slot: SlotIndex, array: ArrayId) -> u64 {
        let header = self.word(slot, array, 0).load(Ordering::Relaxed);
        let (top, place) = (header & 0xffff, self.place(slot, array));
        // The array may have moved after its header was read, so `top` may lie outside its place.
        if top > place.end() { 0 } else { top.saturating_sub(place.begin()) }
    }

    /// Returns whether `object` seems to be among the top [`LOOKED_AT`] objects of a CPU's `array`.
    /// A hint: other tasks may change the array. To be sure, a caller takes the objects out.
    #[inline(always)]
    #[must_use]
    pub fn seems_on_top(&self, slot: SlotIndex, array: ArrayId, object: Object) -> bool {
        if slot.0 >= self.cpus.load(Ordering::Relaxed) {
            return false;
        }
        let start = self.base.load(Ordering::Relaxed) + (slot.index() << SLOT_SHIFT);
        let word = |index: usize| {
            let address = start + ((index % LAST_WORD) << 3);
            // SAFETY: the slot exists and the index is that of one of its words; as for `at`.
            unsafe { &*(address as *const AtomicU64) }.load(Ordering::Relaxed)
        };
        let top = (word(array.index() << (CELL_SHIFT - 3)) & 0xffff) as usize;
        // The header of an array that was never opened is 0.
        top > LOOKED_AT && (1..=LOOKED_AT).any(|depth| word(top - depth) == object.as_ptr() as u64)
    }

    /// One of the four words of an array's cell.
    ///
    /// # Panics
    /// Where the slot or the word does not exist.
    #[inline]
    #[must_use]
    pub fn word(&self, slot: SlotIndex, array: ArrayId, word: usize) -> &AtomicU64 {
        assert!(slot.0 < self.slots() && word < 4);
        self.at(slot, (array.index() << (CELL_SHIFT - 3)) + word)
    }

    #[inline]
    pub(super) fn at(&self, slot: SlotIndex, index: usize) -> &AtomicU64 {
        debug_assert!(index < LAST_WORD && slot.0 < self.slots());
        let (base, cpus) = (self.base.load(Ordering::Relaxed), self.cpus.load(Ordering::Relaxed));
        let start = if slot.0 < cpus {
            base + (slot.index() << SLOT_SHIFT)
        } else {
            base - (((slot.0 - cpus) as usize + 1) << SLOT_SHIFT)
        };
        let address = start + (index << 3);
        // SAFETY: `slot` and `index` lie inside the reservation, which is committed, zeroed when
        // fresh, 8-aligned and never released; zero is a valid AtomicU64.
        unsafe { &*(address as *const AtomicU64) }
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("percpu->bounds", &self.bounds_lock);
    }

    /// The slot's control word (cell 0, word 0): the task that holds its lock, 0 = none.
    #[inline]
    pub(super) fn control(&self, slot: SlotIndex) -> &AtomicU64 {
        self.at(slot, 0)
    }

    #[inline]
    pub(super) fn note_locked(&self, slot: SlotIndex) {
        if !self.was_locked(slot) {
            self.ever_locked.fetch_or(1 << (slot.0 % 64), Ordering::Relaxed);
        }
    }

    /// Returns whether a task may ever have locked the slot; if not, reading the slot's control
    /// word could bring its page into memory for nothing.
    #[inline]
    pub(super) fn was_locked(&self, slot: SlotIndex) -> bool {
        self.ever_locked.load(Ordering::Relaxed) >> (slot.0 % 64) & 1 == 1
    }
}
