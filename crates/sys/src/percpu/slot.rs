//! The memory of the slots: where each cell and each array lies.
//!
//! A slot is [`SLOT_BYTES`] of address space: one page of cells (32 bytes each, cell 0 is the
//! slot's own control), then the arrays one behind the other, each preceded by one guard word that
//! stays 0 so that the look at "the object below the top" never leaves the array's own memory.
//!
//! Layout equation: `begin(a) = end(a-1) + 1`, `end(a) = begin(a) + capacity(a)`,
//! `end(last) <= SLOT_BYTES / 8`.
//!
//! Invariant of an open array: `begin <= top <= end`, and the words `begin..top` are objects.

use super::{ArrayUse, ListUse, Object};
use crate::lock::{CountedLock, Guard};
use crate::os::{Os, OsError, OsResult};
use crate::primitive::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use core::ptr::NonNull;

/// log2 of [`SLOT_BYTES`]; the restartable sequences carry it as an immediate.
pub(super) const SLOT_SHIFT: u32 = 17;
/// Address space per slot: words are numbered by 16 bits, and 72 size classes of up to 128 objects
/// take 75 KiB.
pub const SLOT_BYTES: usize = 1 << SLOT_SHIFT;
/// Cells per slot, the control cell included.
pub const MAX_ARRAYS: usize = 128;
/// log2 of the bytes of a cell: four words.
pub(super) const CELL_SHIFT: u32 = 5;
const CELLS_BYTES: usize = MAX_ARRAYS << CELL_SHIFT;
const FIRST_WORD: usize = CELLS_BYTES / 8;
const LAST_WORD: usize = SLOT_BYTES / 8;

const _: () = assert!(LAST_WORD < 0xffff, "a top and a complemented begin have 16 bits each");

/// Most objects that a list can count.
pub(super) const LIST_MAX: u64 = 0xf_ffff;

/// One cell, that is one cache, of every slot. Never 0: that is the control cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayId(u16);

impl ArrayId {
    /// The id with number `index`.
    ///
    /// # Panics
    /// Where `index` is 0 or not below [`MAX_ARRAYS`].
    #[inline(always)]
    #[must_use]
    pub const fn new(index: usize) -> Self {
        assert!(index > 0 && index < MAX_ARRAYS, "array ids are 1..MAX_ARRAYS");
        Self(index as u16)
    }

    /// The id with number `index`, unchecked: for tables of classes that were checked when built.
    ///
    /// # Safety
    /// `0 < index < MAX_ARRAYS`.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn new_unchecked(index: usize) -> Self {
        Self(index as u16)
    }

    /// The number.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A slot's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotIndex(pub u32);

impl SlotIndex {
    /// As an index into arrays of slots.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The reservation that holds all slots, and the layout that they share.
///
/// ```text
/// | stripes, the last one first | slots of CPUs | numbers that no CPU should have |
///                               ^ base
/// ```
///
/// Sequences compute a slot's address from whatever number the kernel gives them. How many CPUs are
/// possible is the word of `/sys`, which a container may forge; the third part, up to the size of
/// the kernel's own mask, reads as zero, so that a number out of range meets closed cells.
pub struct SlotArea {
    pub(super) base: AtomicUsize,
    slots: AtomicU32,
    /// Slots `0..cpus` lie above the base, the others below.
    cpus: AtomicU32,
    /// Slots of all three parts.
    reserved: AtomicU32,
    /// `{end : 16 | begin : 16}` of each array, 0 = not laid out.
    layout: [AtomicU32; MAX_ARRAYS],
    /// Words of arrays that are laid out.
    laid_out: AtomicU32,
    /// Held while bounds or layouts change: prepare, drain, define.
    pub(super) bounds_lock: CountedLock<()>,
}

impl SlotArea {
    /// An area without memory.
    pub const fn new() -> Self {
        Self {
            base: AtomicUsize::new(0),
            slots: AtomicU32::new(0),
            cpus: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            layout: [const { AtomicU32::new(0) }; MAX_ARRAYS],
            laid_out: AtomicU32::new(0),
            bounds_lock: CountedLock::new(()),
        }
    }

    /// Reserves memory for slots of `cpus` CPUs and for `stripes`, and lets the numbers from `cpus`
    /// to `numbers` read as zero (where the address space is too short for it, they fault). Slots
    /// are committed whole: address space only, a slot that no CPU uses never touches a page.
    pub(super) fn reserve(
        &self,
        os: &dyn Os,
        cpus: u32,
        stripes: u32,
        numbers: u32,
    ) -> OsResult<()> {
        let (slots, guards) = (cpus + stripes, numbers.saturating_sub(cpus));
        let bytes = |slots: u32| slots as usize * SLOT_BYTES;
        let page = os.page_size();
        let with_guards = os.reserve(bytes(slots + guards), page);
        let (start, reserved) = match with_guards {
            Ok(start) => (start, slots + guards),
            Err(error) if guards == 0 => return Err(error),
            Err(_) => (os.reserve(bytes(slots), page)?, slots),
        };
        let base = start.as_ptr() as usize + bytes(stripes);
        let committed = os.commit(start, bytes(slots));
        if let Err(error) = committed {
            // SAFETY: reserved above, and nobody knows it.
            unsafe { os.release(start, bytes(reserved)) };
            return Err(error);
        }
        if let Some(guard) = NonNull::new((base + bytes(cpus)) as *mut u8)
            && reserved > slots
        {
            // Refused, they fault: also safe.
            let _ = os.commit_read_only(guard, bytes(guards));
        }
        self.slots.store(slots, Ordering::Relaxed);
        self.cpus.store(cpus, Ordering::Relaxed);
        self.reserved.store(reserved, Ordering::Relaxed);
        self.base.store(base, Ordering::Release);
        Ok(())
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// `os` is the one that it was reserved from, and nobody uses the slots now or later.
    pub unsafe fn release(&self, os: &dyn Os) {
        let bytes = self.reserved.load(Ordering::Relaxed) as usize * SLOT_BYTES;
        let stripes = (self.slots() - self.cpus.load(Ordering::Relaxed)) as usize;
        let base = self.base.swap(0, Ordering::Relaxed);
        if let Some(start) = NonNull::new(base.saturating_sub(stripes * SLOT_BYTES) as *mut u8) {
            // SAFETY: `reserve` reserved exactly this; the caller promises that it is unused.
            unsafe { os.release(start, bytes) };
        }
    }

    /// Brings the cells and arrays of a slot into memory by one call: a program that starts touches
    /// most of those pages one by one. A hint.
    pub fn populate(&self, os: &dyn Os, slot: SlotIndex) {
        let words = FIRST_WORD + self.laid_out.load(Ordering::Relaxed) as usize;
        let start = NonNull::from(self.control(slot)).cast();
        // Refused, they come by page faults.
        let _ = os.populate(start, (words * 8).next_multiple_of(os.page_size()));
    }

    /// Number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    /// Gives `array` room for `capacity` objects in every slot. Once per array, before its first
    /// use; never for a cell that is used as a list.
    ///
    /// # Errors
    /// `ENOMEM` where the slot's words are used up, `EEXIST` where the array has room already.
    pub fn define(&self, array: ArrayId, capacity: usize) -> OsResult<()> {
        let _held = self.bounds_lock.lock();
        if self.layout[array.index()].load(Ordering::Relaxed) != 0 {
            return Err(OsError(libc::EEXIST));
        }
        let begin = FIRST_WORD + self.laid_out.load(Ordering::Relaxed) as usize + 1;
        let end = begin.saturating_add(capacity);
        if end > LAST_WORD {
            return Err(OsError(libc::ENOMEM));
        }
        self.laid_out.store((end - FIRST_WORD) as u32, Ordering::Relaxed);
        self.layout[array.index()].store((end << 16 | begin) as u32, Ordering::Relaxed);
        Ok(())
    }

    /// Objects that an array of one slot holds, 0 where it is not laid out.
    #[must_use]
    pub fn capacity(&self, array: ArrayId) -> usize {
        let bounds = self.layout[array.index()].load(Ordering::Relaxed) as usize;
        (bounds >> 16) - (bounds & 0xffff)
    }

    /// One of the four words of a cell.
    ///
    /// # Panics
    /// Where the slot or the word does not exist.
    #[inline]
    #[must_use]
    pub fn word(&self, slot: SlotIndex, array: ArrayId, word: usize) -> &AtomicU64 {
        assert!(slot.0 < self.slots() && word < 4);
        self.at(slot, (array.index() << (CELL_SHIFT - 3)) + word)
    }

    /// Word `index` of a slot.
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

    /// The slot's control word (cell 0, word 0): who holds a locked slot, 0 = nobody.
    #[inline]
    pub(super) fn control(&self, slot: SlotIndex) -> &AtomicU64 {
        self.at(slot, 0)
    }

    fn begin(&self, array: ArrayId) -> u64 {
        u64::from(self.layout[array.index()].load(Ordering::Relaxed) & 0xffff)
    }

    /// What word 1 of an open array holds: `{end : 16 | !begin : 16}`. O(1).
    pub(super) fn bounds(&self, array: ArrayId) -> u64 {
        u64::from(self.layout[array.index()].load(Ordering::Relaxed)) ^ 0xffff
    }

    /// Opens `array` in `slot`: the header first, then the bounds. Sequences read the bounds first,
    /// so one that sees the new bounds also sees the new header (x86 keeps loads and stores in
    /// order; locked slots hold their lock), and one that sees none refuses whatever the header.
    /// Idempotent; does nothing before `define`. The caller holds `bounds_lock`.
    pub(super) fn open(&self, _bounds: &Guard<'_, ()>, slot: SlotIndex, array: ArrayId) {
        let header = self.word(slot, array, 0);
        if header.load(Ordering::Relaxed) == 0 && self.capacity(array) != 0 {
            header.store(self.begin(array), Ordering::Release);
            self.word(slot, array, 1).store(self.bounds(array), Ordering::Release);
        }
    }

    /// Whether `array` of `slot` has been opened, also while a drain has it stopped.
    pub(super) fn is_opened(&self, slot: SlotIndex, array: ArrayId) -> bool {
        self.word(slot, array, 0).load(Ordering::Relaxed) != 0
    }

    /// Empties `array` of a slot that no sequence can change now, and gives the objects to `take`.
    pub(super) fn empty_stopped(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        take: &mut dyn FnMut(&[Object]),
    ) {
        let header = self.word(slot, array, 0);
        let value = header.load(Ordering::Acquire);
        let begin = self.begin(array);
        let top = (value & 0xffff) as usize;
        let mut piece = [NonNull::<u8>::dangling(); 64];
        let mut from = begin as usize;
        while from < top {
            let count = (top - from).min(piece.len());
            for (offset, object) in piece[..count].iter_mut().enumerate() {
                let address = self.at(slot, from + offset).load(Ordering::Relaxed) as *mut u8;
                *object = NonNull::new(address).expect("arrays hold no null");
            }
            take(&piece[..count]);
            from += count;
        }
        header.store(value & !0xffff | begin, Ordering::Release);
    }

    /// Takes the list and the guard of a slot that no sequence can change now.
    pub(super) fn empty_list(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        guard: u64,
        take: &mut dyn FnMut(u64, Option<Object>, usize),
    ) {
        let list = self.word(slot, array, 0).swap(0, Ordering::AcqRel);
        let head = Object::new(((list >> 20) << 4) as *mut u8);
        if guard != 0 || head.is_some() {
            take(guard, head, (list & LIST_MAX) as usize);
        }
        self.word(slot, array, 1).store(0, Ordering::Release);
    }

    /// Level and operations of an array summed over all slots; a snapshot. O(slots).
    #[must_use]
    pub fn usage(&self, array: ArrayId) -> ArrayUse {
        let mut sum = ArrayUse::default();
        if self.capacity(array) == 0 {
            return sum;
        }
        for slot in (0..self.slots()).map(SlotIndex).filter(|slot| self.is_opened(*slot, array)) {
            let header = self.word(slot, array, 0).load(Ordering::Relaxed);
            sum.level += (header & 0xffff).saturating_sub(self.begin(array));
            sum.operations += header >> 16;
        }
        sum
    }

    /// A number that changes with every push and pop of any of a slot's cells. O(cells).
    #[must_use]
    pub fn slot_operations(&self, slot: SlotIndex) -> u64 {
        (1..MAX_ARRAYS).map(ArrayId::new).fold(0, |sum, array| {
            let word = |word| self.word(slot, array, word).load(Ordering::Relaxed);
            // An array counts in its header, a list in words of its own, which arrays leave 0.
            sum.wrapping_add(word(0)).wrapping_add(word(2)).wrapping_add(word(3))
        })
    }

    /// Objects in one slot's array. O(1).
    #[must_use]
    pub fn slot_level(&self, slot: SlotIndex, array: ArrayId) -> u64 {
        let header = self.word(slot, array, 0).load(Ordering::Relaxed);
        (header & 0xffff).saturating_sub(self.begin(array))
    }

    /// Objects, pops and pushes of a list summed over all slots; a snapshot. O(slots).
    #[must_use]
    pub fn list_usage(&self, array: ArrayId) -> ListUse {
        let mut sum = ListUse::default();
        for slot in (0..self.slots()).map(SlotIndex) {
            let word = |word| self.word(slot, array, word).load(Ordering::Relaxed);
            sum.level += word(0) & LIST_MAX;
            sum.pops += word(2);
            sum.pushes += word(3);
        }
        sum
    }
}

impl Default for SlotArea {
    fn default() -> Self {
        Self::new()
    }
}
