//! The word of a slab whose bits lie before its first object: the digest of the bits and the number
//! of free objects; or, while the slab is *folded*, the few objects in use.
//!
//! ```text
//! { digest of the bits : 53                | free objects : 11 }
//! { - : 3 | numbers of objects in use : 50 | FOLDED + objects in use : 11 }
//! ```
//!
//! The bits of a folded slab have no memory, so that its first page may go back. Equation: a slab
//! is folded iff the lower 11 bits are at least `FOLDED`.

/// The word has the number of free objects in its lowest bits.
pub(super) const FREE_BITS: u32 = 11;
pub(super) const FREE_MASK: u64 = (1 << FREE_BITS) - 1;
/// The most objects in use that a word can name.
const NAMED: u32 = 5;
const NUMBER_BITS: u32 = 10;
/// The most objects of a slab that can be folded.
pub(super) const FOLDABLE_OBJECTS: u32 = 1 << NUMBER_BITS;
const FOLDED: u64 = FREE_MASK - NAMED as u64;
const _: () = assert!(FOLDABLE_OBJECTS as u64 <= FOLDED);

/// The bits of word `index` if all `objects` of a slab are free.
pub(super) fn all_free(objects: u32, index: u32) -> u64 {
    let left = objects - index * u64::BITS;
    if left >= u64::BITS { u64::MAX } else { (1 << left) - 1 }
}

#[derive(Clone, Copy)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) fn is_folded(self) -> bool {
        self.0 & FREE_MASK >= FOLDED
    }

    /// Number of free objects of a slab with `objects` objects.
    pub(super) fn free(self, objects: u32) -> u32 {
        let low = self.0 & FREE_MASK;
        if self.is_folded() { objects - (low - FOLDED) as u32 } else { low as u32 }
    }

    pub(super) fn is_foldable(self, objects: u32) -> bool {
        !self.is_folded() && objects <= FOLDABLE_OBJECTS && objects - self.free(objects) <= NAMED
    }

    /// The word that names the objects in use, at most [`NAMED`].
    pub(super) fn folded(in_use: impl Iterator<Item = u32>) -> Self {
        let name = |word: u64, (place, number): (usize, u32)| {
            (word | u64::from(number) << (FREE_BITS + place as u32 * NUMBER_BITS)) + 1
        };
        Self(in_use.enumerate().fold(FOLDED, name))
    }

    /// Word `index` of the bits of a folded slab with `objects` objects.
    pub(super) fn bits(self, objects: u32, index: u32) -> u64 {
        let named = ((self.0 & FREE_MASK) - FOLDED) as u32;
        let number = |place| self.0 >> (FREE_BITS + place * NUMBER_BITS) & ((1 << NUMBER_BITS) - 1);
        let of_index = (0..named).map(number).filter(|number| number / 64 == u64::from(index));
        of_index.fold(all_free(objects, index), |bits, number| bits & !(1 << (number % 64)))
    }
}
