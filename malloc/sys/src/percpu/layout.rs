//! The places of cells and arrays in a slot, and the words of a cell.
//!
//! A slot is [`SLOT_BYTES`] of address space: 4 KiB of cells (32 bytes each; cell 0, the
//! *control cell*, belongs to the slot itself), then the arrays one after the other. [`LOOKED_AT`]
//! guard words that stay 0 precede each array, because a push compares its object with that many
//! words below the top, even in an empty array.
//!
//! An array gets a narrow place when it is opened. So the arrays that a program uses lie together
//! on few pages, and few pages fault when the program starts and again after each fork.
//! [`WIDE_PLACES`] wide places follow the narrow ones; an array that needs more room moves to a
//! free wide place until it is drained.
//!
//! Layout equation of narrow places, in the order in which a slot's arrays were opened:
//! `begin(n) = end(n-1) + LOOKED_AT`, `end(n) = begin(n) + words(n)`, `end(last) <= FIRST_WIDE`,
//! `capacity(n) <= words(n)`, with equality unless the array was defined again. Wide place `p`
//! begins at word `FIRST_WIDE + p * WIDE_WORDS + LOOKED_AT`, after its own guards.
//!
//! Invariant of an opened array: its place (word 3) is a front part of its narrow place, perhaps
//! empty, or of a wide place whose owner (a byte of the control cell) is the array;
//! `begin <= top <= end` of its place; and the words `begin..top` are objects. `room.rs` gives and
//! takes room.

/// log2 of [`SLOT_BYTES`], an immediate operand of the sequences.
pub(super) const SLOT_SHIFT: u32 = 18;
/// Bytes of address space per slot, so that 16 bits can number its words. The narrow places of 72
/// size classes of up to 128 objects take 52 KiB, the wide places 192 KiB.
pub const SLOT_BYTES: usize = 1 << SLOT_SHIFT;
/// Cells per slot, the control cell included.
pub const MAX_ARRAYS: usize = 128;
/// log2 of the bytes of a cell: four words.
pub(super) const CELL_SHIFT: u32 = 5;
const CELLS_BYTES: usize = MAX_ARRAYS << CELL_SHIFT;
pub(super) const FIRST_WORD: usize = CELLS_BYTES / 8;
pub(super) const LAST_WORD: usize = SLOT_BYTES / 8;
/// Wide places of a slot. One word names their owners, one byte for each place.
pub const WIDE_PLACES: usize = 6;
/// Maximum number of objects of an array in a wide place: enough for a burst of four thousand.
pub const WIDE_OBJECTS: usize = 4096;
/// Number of objects below the top with which a push compares its own, and of guard words.
pub const LOOKED_AT: usize = 2;
const WIDE_WORDS: usize = LOOKED_AT + WIDE_OBJECTS;
pub(super) const FIRST_WIDE: usize = LAST_WORD - WIDE_PLACES * WIDE_WORDS;

/// Bits of `top` in an array's header, and of each bound.
pub(super) const TOP_BITS: u32 = 16;

const _: () =
    assert!(LAST_WORD < (1 << TOP_BITS) - 1, "a top and a complemented begin have as many bits");
const _: () = assert!(MAX_ARRAYS <= 256, "the number of an array fits a byte");

/// Word of an array's cell with its places, `{narrow : 32 | now : 32}`; 0: never opened. `narrow`
/// is the whole narrow place, `now` the present place.
pub(super) const PLACE: usize = 3;
/// Where an array lies: `{end : 16 | begin : 16}`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(pub(super) u32);

impl Place {
    pub(super) fn new(begin: usize, end: usize) -> Self {
        Self((end << 16 | begin) as u32)
    }

    pub(super) fn front(self, objects: usize) -> Self {
        Self::new(self.begin() as usize, self.begin() as usize + objects.min(self.len()))
    }

    pub(super) fn len(self) -> usize {
        (self.end() - self.begin()) as usize
    }

    pub(super) fn begin(self) -> u64 {
        u64::from(self.0 & 0xffff)
    }

    pub(super) fn end(self) -> u64 {
        u64::from(self.0 >> 16)
    }

    /// Returns word 1 of the cell of an array open at this place: `{end : 16 | !begin : 16}`. With
    /// an empty place, these bounds refuse pushes and pops as closed bounds do.
    pub(super) fn bounds(self) -> u64 {
        u64::from(self.0) ^ 0xffff
    }
}

/// Word of an array's cell. Low half: its misses, by which the policy decides about its room. High
/// half: its `operations` when the hand of the clock last passed it (see `room`).
pub(super) const MISSES: usize = 2;

/// Maximum number of objects that a list can count.
pub(super) const LIST_MAX: u64 = 0xf_ffff;

/// A wide place of a slot, and the words of it that an array may use.
#[derive(Clone, Copy)]
pub(super) struct WidePlace {
    pub(super) number: usize,
    pub(super) capacity: usize,
}

impl WidePlace {
    pub(super) fn place(self) -> Place {
        let begin = FIRST_WIDE + self.number * WIDE_WORDS + LOOKED_AT;
        Place::new(begin, begin + self.capacity)
    }
}

/// Number of a cell, and so of a cache, the same in every slot. Never 0: that is the control cell.
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

    /// The id with number `index`, unchecked: for tables that were checked when they were built.
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

/// A word of a cell: its slot, its array or list, and its number (0..4).
pub type CellWord = (SlotIndex, ArrayId, usize);

/// The number of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotIndex(pub u32);

impl SlotIndex {
    /// The number as an index.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
