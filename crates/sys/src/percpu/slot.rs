//! The memory of the slots: where each cell and each array lies.
//!
//! A slot is [`SLOT_BYTES`] of address space: one page of cells (32 bytes each, cell 0 is the
//! slot's own control), then the arrays one behind the other, each preceded by [`LOOKED_AT`] guard
//! words that stay 0, so that a push's look at the objects below the top never leaves the array's
//! own memory.
//!
//! Every array has a narrow place of its own from the time when it is opened. So what a program
//! uses lies together in each slot, on few pages: those are touched one by one when it starts, and
//! again by each side of a fork. Behind the narrow places lie [`WIDE_PLACES`] wide ones; an array
//! that has shown that it needs one moves to one that is free, until it is drained.
//!
//! Layout equation of narrow places, in the order in which a slot's arrays were opened:
//! `begin(n) = end(n-1) + LOOKED_AT`, `end(n) = begin(n) + capacity(n)`, `end(last) <= FIRST_WIDE`.
//! Wide place `p` is the words `FIRST_WIDE + p * WIDE_WORDS + LOOKED_AT ..`, behind its own guards.
//!
//! Invariant of an array that has been opened: its place (word 3) is a front part of its narrow
//! one, perhaps an empty one, or a wide one whose owner (a byte of the slot's control cell) it is,
//! `begin <= top <= end` of its place, and the words `begin..top` are objects. How much room it
//! gets there, and when it loses it, is in `room`.

use super::room::Rooms;
use super::{ArrayUse, Limits, ListUse, Object};
use crate::lock::{CountedLock, Guard};
use crate::locks::Visit;
use crate::os::{Os, OsError, OsResult};
use crate::primitive::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use core::ptr::NonNull;

/// log2 of [`SLOT_BYTES`]; the restartable sequences carry it as an immediate.
pub(super) const SLOT_SHIFT: u32 = 17;
/// Address space per slot: words are numbered by 16 bits. The narrow places of 72 size classes of
/// up to 128 objects take 52 KiB, the wide places 64 KiB; memory is what is touched of it.
pub const SLOT_BYTES: usize = 1 << SLOT_SHIFT;
/// Cells per slot, the control cell included.
pub const MAX_ARRAYS: usize = 128;
/// log2 of the bytes of a cell: four words.
pub(super) const CELL_SHIFT: u32 = 5;
const CELLS_BYTES: usize = MAX_ARRAYS << CELL_SHIFT;
pub(super) const FIRST_WORD: usize = CELLS_BYTES / 8;
const LAST_WORD: usize = SLOT_BYTES / 8;
/// Wide places of a slot: a byte of one word names the owner of each.
pub const WIDE_PLACES: usize = 8;
/// Most objects of an array in a wide place: a burst of a thousand.
pub const WIDE_OBJECTS: usize = 1024;
/// Objects below the top among which a push looks for the one that it is given, and guard words in
/// front of each array.
pub const LOOKED_AT: usize = 2;
const WIDE_WORDS: usize = LOOKED_AT + WIDE_OBJECTS;
const FIRST_WIDE: usize = LAST_WORD - WIDE_PLACES * WIDE_WORDS;

const _: () = assert!(LAST_WORD < 0xffff, "a top and a complemented begin have 16 bits each");
const _: () = assert!(MAX_ARRAYS <= 256, "the number of an array fits a byte");

/// Most slots that read as zero behind those of possible CPUs: 8 MiB of address space. Numbers
/// behind them, which nobody should have either, fault.
const MOST_GUARDS: u32 = 64;

/// Word of an array's cell that says where it lies, 0 = never opened: `{narrow : 32 | now : 32}`,
/// two places; of the narrow one `end` is that of all of it.
const PLACE: usize = 3;
/// Bytes of a slot that come into memory at once: the cells, and the arrays of twelve classes.
const POPULATED_BYTES: usize = 16 << 10;

/// Where an array lies: `{end : 16 | begin : 16}`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u32);

impl Place {
    fn new(begin: usize, end: usize) -> Self {
        Self((end << 16 | begin) as u32)
    }

    /// Its first words, at most all of them.
    pub(super) fn front(self, objects: usize) -> Self {
        Self::new(self.begin() as usize, self.begin() as usize + objects.min(self.len()))
    }

    /// Objects that find room.
    pub(super) fn len(self) -> usize {
        (self.end() - self.begin()) as usize
    }

    fn begin(self) -> u64 {
        u64::from(self.0 & 0xffff)
    }

    fn end(self) -> u64 {
        u64::from(self.0 >> 16)
    }

    /// What word 1 of the open array holds: `{end : 16 | !begin : 16}`. An empty place refuses
    /// pushes and pops as closed bounds do.
    fn bounds(self) -> u64 {
        u64::from(self.0) ^ 0xffff
    }
}

/// Word of an array's cell that counts its misses: the low half is for whoever decides about its
/// room, the high half for the hand that looks for room to take (see `room`).
pub(super) const MISSES: usize = 2;

/// Most objects that a list can count.
pub(super) const LIST_MAX: u64 = 0xf_ffff;

/// A wide place of a slot, and how much of it an array uses.
#[derive(Clone, Copy)]
pub(super) struct WidePlace {
    number: usize,
    capacity: usize,
}

impl WidePlace {
    fn place(self) -> Place {
        let begin = FIRST_WIDE + self.number * WIDE_WORDS + LOOKED_AT;
        Place::new(begin, begin + self.capacity)
    }
}

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
/// the kernel's own mask and at most 64 slots, reads as zero, so that a number out of range meets
/// closed cells.
pub struct SlotArea {
    pub(super) base: AtomicUsize,
    slots: AtomicU32,
    /// Slots `0..cpus` lie above the base, the others below.
    cpus: AtomicU32,
    /// Slots of all three parts.
    reserved: AtomicU32,
    /// Capacity of each array in its narrow place, 0 where it is not defined.
    narrow: [AtomicU32; MAX_ARRAYS],
    /// Capacity of each array in a wide place, 0 where it stays in its narrow one.
    wide: [AtomicU32; MAX_ARRAYS],
    /// Words of narrow places.
    laid_out: AtomicU32,
    /// Held while bounds or layouts change: prepare, drain, define.
    pub(super) bounds_lock: CountedLock<()>,
    /// How much room arrays have.
    pub(super) rooms: Rooms,
    /// Barriers that drains have asked the kernel for.
    pub(super) barriers: AtomicU64,
    /// Bit `n % 64` is set once somebody has tried to hold slot `n`.
    ever_held: AtomicU64,
}

impl SlotArea {
    /// An area without memory.
    pub const fn new() -> Self {
        Self {
            base: AtomicUsize::new(0),
            slots: AtomicU32::new(0),
            cpus: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            narrow: [const { AtomicU32::new(0) }; MAX_ARRAYS],
            wide: [const { AtomicU32::new(0) }; MAX_ARRAYS],
            laid_out: AtomicU32::new(0),
            bounds_lock: CountedLock::new(()),
            rooms: Rooms::new(),
            barriers: AtomicU64::new(0),
            ever_held: AtomicU64::new(0),
        }
    }

    /// Reserves memory for slots of `cpus` CPUs and for `stripes`, and lets the numbers from `cpus`
    /// to `numbers` read as zero (where the address space is too short for it, they fault). All of
    /// it is one mapping, because each costs a fork some time; it is address space only: a slot
    /// that no CPU uses never touches a page.
    pub(super) fn reserve(
        &self,
        os: &dyn Os,
        cpus: u32,
        stripes: u32,
        numbers: u32,
    ) -> OsResult<()> {
        let (slots, guards) = (cpus + stripes, numbers.saturating_sub(cpus).min(MOST_GUARDS));
        let bytes = |slots: u32| slots as usize * SLOT_BYTES;
        let with_guards = os.reserve(bytes(slots + guards));
        let (start, reserved) = match with_guards {
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

    /// Brings the cells and the first arrays of a slot into memory by one call: a program that
    /// starts touches these pages one by one. A hint.
    pub fn populate(&self, os: &dyn Os, slot: SlotIndex) {
        let start = NonNull::from(self.control(slot)).cast();
        // Refused, they come by page faults.
        let _ = os.populate(start, POPULATED_BYTES.next_multiple_of(os.page_size()));
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
        Ok(())
    }

    /// Lets [`widen`](super::PerCpu::widen) move `array` to a wide place, where it holds up to
    /// `capacity` objects, at most [`WIDE_OBJECTS`].
    pub fn define_wide(&self, array: ArrayId, capacity: usize) {
        self.wide[array.index()].store(capacity.min(WIDE_OBJECTS) as u32, Ordering::Relaxed);
    }

    /// Objects that a narrow array of one slot holds, 0 where it is not laid out.
    #[must_use]
    pub fn capacity(&self, array: ArrayId) -> usize {
        self.narrow[array.index()].load(Ordering::Relaxed) as usize
    }

    /// The narrow place of `array` of `slot`, and where it lies now.
    pub(super) fn places(&self, slot: SlotIndex, array: ArrayId) -> (Place, Place) {
        let word = self.word(slot, array, PLACE).load(Ordering::Relaxed);
        (Place((word >> 32) as u32), Place(word as u32))
    }

    pub(super) fn set_places(&self, slot: SlotIndex, array: ArrayId, narrow: Place, now: Place) {
        let word = u64::from(narrow.0) << 32 | u64::from(now.0);
        self.word(slot, array, PLACE).store(word, Ordering::Relaxed);
    }

    /// A narrow place for `array`, which has none yet in `slot`. There is room for all that are
    /// defined.
    fn next_narrow_place(&self, slot: SlotIndex, array: ArrayId) -> Place {
        let in_use = self.words_in_use(slot);
        let begin = FIRST_WORD + in_use + LOOKED_AT;
        let end = begin + self.capacity(array);
        self.set_words_in_use(slot, end - FIRST_WORD);
        Place::new(begin, end)
    }

    /// Where `array` of `slot` lies now.
    pub(super) fn place(&self, slot: SlotIndex, array: ArrayId) -> Place {
        self.places(slot, array).1
    }

    /// Whether `array` of `slot` lies in its wide place.
    #[must_use]
    pub fn is_wide(&self, slot: SlotIndex, array: ArrayId) -> bool {
        let (narrow, now) = self.places(slot, array);
        narrow.begin() != now.begin()
    }

    /// Whether `object` seems to be among the [`LOOKED_AT`] on top of `array` of `slot`, the slot
    /// of a CPU: read while others may be at work, so whoever wants to be sure takes them out.
    #[inline(always)]
    #[must_use]
    pub fn seems_on_top(&self, slot: SlotIndex, array: ArrayId, object: Object) -> bool {
        if slot.0 >= self.cpus.load(Ordering::Relaxed) {
            return false;
        }
        let start = self.base.load(Ordering::Relaxed) + (slot.index() << SLOT_SHIFT);
        let word = |index: usize| {
            let address = start + ((index % LAST_WORD) << 3);
            // SAFETY: one of the words of a slot that exists; as for `at`.
            unsafe { &*(address as *const AtomicU64) }.load(Ordering::Relaxed)
        };
        let top = (word(array.index() << (CELL_SHIFT - 3)) & 0xffff) as usize;
        // The header of an array that was never opened is 0.
        top > LOOKED_AT && (1..=LOOKED_AT).any(|depth| word(top - depth) == object.as_ptr() as u64)
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
    /// Visits the locks of the area.
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("percpu->bounds", &self.bounds_lock);
    }

    #[inline]
    pub(super) fn control(&self, slot: SlotIndex) -> &AtomicU64 {
        self.at(slot, 0)
    }

    /// Notes that somebody tries to hold a slot.
    #[inline]
    pub(super) fn note_held(&self, slot: SlotIndex) {
        if !self.was_held(slot) {
            self.ever_held.fetch_or(1 << (slot.0 % 64), Ordering::Relaxed);
        }
    }

    /// Whether somebody may have held it; if not, its control word may not even be in memory.
    #[inline]
    pub(super) fn was_held(&self, slot: SlotIndex) -> bool {
        self.ever_held.load(Ordering::Relaxed) >> (slot.0 % 64) & 1 == 1
    }

    /// Opens `array` of `slot` where it lies now, after it was stopped and perhaps moved.
    pub(super) fn reopen(&self, slot: SlotIndex, array: ArrayId) {
        self.word(slot, array, 1).store(self.place(slot, array).bounds(), Ordering::Release);
    }

    /// Gives `array` of `slot`, which lies in its narrow place or was never opened, room for `room`
    /// objects, at least as many as it has now: the header first, then the bounds. Sequences read
    /// the bounds first, so one that sees the new bounds also sees the new header (x86 keeps loads
    /// and stores in order; locked slots hold their lock), and one that sees old ones refuses
    /// whatever the header, or finds less room. Does nothing before `define`, nor to an array that
    /// a drain has stopped. The caller holds `bounds_lock`.
    pub(super) fn give_room(
        &self,
        _bounds: &Guard<'_, ()>,
        slot: SlotIndex,
        array: ArrayId,
        room: usize,
    ) {
        if self.capacity(array) == 0 || self.is_stopped(slot, array) {
            return;
        }
        let header = self.word(slot, array, 0);
        if header.load(Ordering::Relaxed) == 0 {
            let place = self.next_narrow_place(slot, array);
            self.set_places(slot, array, place, place.front(0));
            header.store(place.begin(), Ordering::Release);
        }
        let (narrow, now) = self.places(slot, array);
        debug_assert!(narrow.begin() == now.begin() && now.len() <= room);
        self.set_room(slot, array, narrow.front(room));
        self.reopen(slot, array);
    }

    /// Whether a drain has stopped `array` of `slot`. Known to who holds `bounds_lock`.
    pub(super) fn is_stopped(&self, slot: SlotIndex, array: ArrayId) -> bool {
        let bounds = self.word(slot, array, 1).load(Ordering::Relaxed);
        bounds == 0 && self.place(slot, array).len() > 0
    }

    /// Which array has each of the slot's wide places, one byte each (cell 0, word 1). Changed
    /// under `bounds_lock`.
    fn owners(&self, slot: SlotIndex) -> &AtomicU64 {
        self.at(slot, 1)
    }

    /// The numbers of the arrays that have wide places of `slot` now. Takes no lock.
    pub fn wide_owners(&self, slot: SlotIndex) -> impl Iterator<Item = usize> + use<> {
        let owners = self.owners(slot).load(Ordering::Relaxed).to_le_bytes();
        owners.into_iter().filter(|owner| *owner != 0).map(usize::from)
    }

    /// A free wide place for `array` of `slot`, if it is open, narrow, and may be wide within
    /// `limits`.
    pub(super) fn free_wide_place(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        limits: &Limits,
    ) -> Option<WidePlace> {
        let capacity = self.wide[array.index()].load(Ordering::Relaxed) as usize;
        if capacity == 0
            || self.room(slot, array) == 0
            || self.is_wide(slot, array)
            || !self.may_widen(slot, array, capacity, limits)
        {
            return None;
        }
        let owners = self.owners(slot).load(Ordering::Relaxed).to_le_bytes();
        let number = owners.iter().position(|owner| *owner == 0)?;
        Some(WidePlace { number, capacity })
    }

    /// Moves `array` of `slot`, which no sequence can change now, to a free wide place. The caller
    /// holds `bounds_lock` and opens the array again.
    pub(super) fn widen_stopped(&self, slot: SlotIndex, array: ArrayId, wide: WidePlace) {
        let ((narrow, from), to) = (self.places(slot, array), wide.place());
        let header = self.word(slot, array, 0);
        let value = header.load(Ordering::Acquire);
        let level = (value & 0xffff) - from.begin();
        for offset in 0..level as usize {
            let object = self.at(slot, from.begin() as usize + offset).load(Ordering::Relaxed);
            self.at(slot, to.begin() as usize + offset).store(object, Ordering::Relaxed);
        }
        let mut owners = self.owners(slot).load(Ordering::Relaxed).to_le_bytes();
        owners[wide.number] = array.index() as u8;
        self.owners(slot).store(u64::from_le_bytes(owners), Ordering::Relaxed);
        debug_assert!(narrow.begin() == from.begin());
        self.set_room(slot, array, to);
        header.store(value & !0xffff | (to.begin() + level), Ordering::Release);
    }

    /// Takes from `array` of `slot`, which is stopped, the wide place that it may have.
    fn narrow_stopped(&self, slot: SlotIndex, array: ArrayId) {
        let owners = self.owners(slot).load(Ordering::Relaxed).to_le_bytes();
        let left = owners.map(|owner| if owner == array.index() as u8 { 0 } else { owner });
        if left != owners {
            self.owners(slot).store(u64::from_le_bytes(left), Ordering::Relaxed);
        }
    }

    /// Takes all objects of `array` of a slot that no sequence can change now, and its room: gives
    /// the objects to `take`, and what is left is the front of its narrow place, without room.
    pub(super) fn empty_stopped(
        &self,
        slot: SlotIndex,
        array: ArrayId,
        take: &mut dyn FnMut(ArrayId, &[Object]),
    ) {
        let header = self.word(slot, array, 0);
        let value = header.load(Ordering::Acquire);
        let begin = self.place(slot, array).begin();
        let top = (value & 0xffff) as usize;
        let mut piece = [NonNull::<u8>::dangling(); 64];
        let mut from = begin as usize;
        while from < top {
            let count = (top - from).min(piece.len());
            for (offset, object) in piece[..count].iter_mut().enumerate() {
                let address = self.at(slot, from + offset).load(Ordering::Relaxed) as *mut u8;
                *object = NonNull::new(address).expect("arrays hold no null");
            }
            take(array, &piece[..count]);
            from += count;
        }
        self.narrow_stopped(slot, array);
        let (narrow, _) = self.places(slot, array);
        header.store(value & !0xffff | narrow.begin(), Ordering::Release);
        // What it had missed concerned the room that it had.
        self.word(slot, array, MISSES).store(0, Ordering::Relaxed);
        self.set_room(slot, array, narrow.front(0));
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

    /// Level and operations of an array summed over all slots; a snapshot. O(slots awake).
    #[must_use]
    pub fn usage(&self, array: ArrayId) -> ArrayUse {
        let operations = self.rooms.operations_asleep(array);
        let mut sum = ArrayUse { level: 0, operations };
        if self.capacity(array) == 0 {
            return sum;
        }
        for slot in self.awake() {
            let header = self.word(slot, array, 0).load(Ordering::Relaxed);
            if header != 0 {
                sum.level += self.slot_level(slot, array);
                sum.operations += header >> 16;
            }
        }
        sum
    }

    /// A number that changes with every push and pop of any of a slot's cells. O(cells).
    #[must_use]
    pub fn slot_operations(&self, slot: SlotIndex) -> u64 {
        (1..MAX_ARRAYS).map(ArrayId::new).fold(0, |sum, array| {
            let word = |word| self.word(slot, array, word).load(Ordering::Relaxed);
            // An array counts in its header, a list in words of its own, where arrays keep what
            // changes when they are missed or moved.
            sum.wrapping_add(word(0)).wrapping_add(word(2)).wrapping_add(word(3))
        })
    }

    /// Objects in one slot's array. O(1).
    #[must_use]
    pub fn slot_level(&self, slot: SlotIndex, array: ArrayId) -> u64 {
        let header = self.word(slot, array, 0).load(Ordering::Relaxed);
        let (top, place) = (header & 0xffff, self.place(slot, array));
        // One of the two may be from before a move.
        if top > place.end() { 0 } else { top.saturating_sub(place.begin()) }
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
