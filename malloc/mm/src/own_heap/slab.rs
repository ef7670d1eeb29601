//! The descriptor of a slab, a block or a mapping of an own heap: one cache line.
//!
//! Equations, while no thread holds the heap's lock:
//! * of a slab: bits that are set in `used` = `in_use` + bits beyond its last object. Objects that
//!   the heap's cursor is about to hand out count as in use
//! * of a block or a mapping: `in_use = 1`

use crate::frame::{FRAME_BYTES, MAX_ORDER, Order, Pfn, fresh_zero};
use crate::heap::classes;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::primitive::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Largest object in a slab; a larger one is a block of pages or a mapping of its own.
pub const LARGEST: usize = 8 << 10;
/// Number of classes of objects in slabs: those of `malloc` up to [`LARGEST`].
pub(super) const CLASSES: usize = 56;
const _: () = assert!(classes::SIZES[CLASSES] as usize == LARGEST);
/// Most objects in a slab: the bits of a descriptor.
const MOST: u32 = 256;
const WORDS: usize = MOST as usize / 64;
/// Words of a sample: the complements of its record and of its usable bytes.
const SAMPLE: usize = WORDS - 1;
const USABLE: usize = WORDS - 2;
/// Order of the largest slabs, 64 KiB.
pub(super) const MOST_ORDER: u8 = 4;
const _: () = assert!(MOST_ORDER < MAX_ORDER);

/// `ceil(2^32 / stride)`: `offset * this >> 32` is the number of the object at `offset`, exact in
/// slabs of at most 64 KiB.
const MAGIC: [u32; CLASSES + 1] = {
    let mut magic = [0; CLASSES + 1];
    let mut class = 1;
    while class <= CLASSES {
        magic[class] = (1u64 << 32).div_ceil(classes::SIZES[class] as u64) as u32;
        class += 1;
    }
    magic
};

/// The kind of thing that a descriptor describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Objects of this class.
    Objects(u8),
    /// One allocation in a block of pages.
    Block,
    /// One allocation in a mapping.
    Mapping,
}

impl Contents {
    const BLOCK: u8 = 254;
    const MAPPING: u8 = 255;

    fn code(self) -> u8 {
        match self {
            Self::Objects(class) => class,
            Self::Block => Self::BLOCK,
            Self::Mapping => Self::MAPPING,
        }
    }

    fn of(code: u8) -> Self {
        match code {
            Self::BLOCK => Self::Block,
            Self::MAPPING => Self::Mapping,
            class => Self::Objects(class),
        }
    }
}

/// Bytes from one object of a class to the next.
#[inline]
pub(super) fn stride(class: u8) -> usize {
    classes::SIZES.get(usize::from(class)).map_or(0, |size| *size as usize)
}

fn objects_in(class: u8, frames: u32) -> u32 {
    (frames as usize * FRAME_BYTES / stride(class).max(1)).min(MOST as usize) as u32
}

/// The smallest and the largest order of a class's slabs: at least two objects, at most [`MOST`].
pub(super) fn orders(class: u8) -> (u8, u8) {
    let least = (2 * stride(class)).div_ceil(FRAME_BYTES).next_power_of_two().ilog2() as u8;
    let bytes = MOST as usize * stride(class);
    let most = (bytes / FRAME_BYTES).max(1).ilog2() as u8;
    (least, most.clamp(least, MOST_ORDER))
}

fresh_zero! {
    /// The descriptor. All but `heap` and `first` change only under the lock of the heap.
    #[repr(C, align(64))]
    pub struct OwnSlab {
        /// Bit `n % 64` of word `n / 64` is set if object `n` is in use, or if there is none.
        used: [AtomicU64; WORDS],
        /// The number of the heap; 0 if the descriptor describes nothing.
        heap: AtomicU32,
        first: AtomicU32,
        /// Neighbours on the list of a class: slabs that may have a free object.
        pub(super) next: AtomicU32,
        pub(super) previous: AtomicU32,
        /// Neighbours among all descriptors of the heap. `next_of_heap` also links free
        /// descriptors, and gone ones.
        pub(super) next_of_heap: AtomicU32,
        pub(super) previous_of_heap: AtomicU32,
        frames: AtomicU32,
        in_use: AtomicU16,
        contents: AtomicU8,
        pub(super) is_listed: AtomicU8,
    }
}

const _: () = assert!(size_of::<OwnSlab>() == 64 || cfg!(quarry_model));

impl OwnSlab {
    /// Describes frames that a heap has just got.
    pub(super) fn set_up(&self, heap: u32, (first, frames): (Pfn, u32), contents: Contents) {
        self.first.store(first.0, Relaxed);
        self.frames.store(frames, Relaxed);
        self.contents.store(contents.code(), Relaxed);
        self.is_listed.store(0, Relaxed);
        self.clear();
        self.heap.store(heap, Relaxed);
    }

    /// Ends the description.
    pub(super) fn end(&self) {
        self.heap.store(0, Relaxed);
    }

    /// Marks all objects as free; the allocation in a block or mapping, as in use.
    pub(super) fn clear(&self) {
        let objects = match self.contents() {
            Contents::Objects(class) => objects_in(class, self.frames()),
            _ => 0,
        };
        for (number, word) in self.used.iter().enumerate() {
            let before = (objects as usize).saturating_sub(number * 64).min(64);
            word.store(if before == 64 { 0 } else { u64::MAX << before }, Relaxed);
        }
        self.in_use.store(u16::from(objects == 0), Relaxed);
    }

    /// The number of the heap, 0 for none.
    #[inline]
    pub fn heap(&self) -> u32 {
        self.heap.load(Relaxed)
    }

    /// The first frame.
    #[inline]
    pub fn first(&self) -> Pfn {
        Pfn(self.first.load(Relaxed))
    }

    /// Number of frames.
    #[inline]
    pub fn frames(&self) -> u32 {
        self.frames.load(Relaxed)
    }

    /// The order of a slab.
    pub fn order(&self) -> Order {
        Order::covering(self.frames())
    }

    /// See [`Contents`].
    #[inline]
    pub fn contents(&self) -> Contents {
        Contents::of(self.contents.load(Relaxed))
    }

    /// Usable bytes of each object.
    #[inline]
    pub fn object_bytes(&self) -> usize {
        match self.contents() {
            Contents::Objects(class) => stride(class),
            Contents::Block if self.sample() != 0 => !self.used[USABLE].load(Relaxed) as usize,
            _ => self.frames() as usize * FRAME_BYTES,
        }
    }

    #[inline]
    pub(super) fn in_use(&self) -> u32 {
        self.in_use.load(Relaxed).into()
    }

    /// The class and the number of the object of a slab that starts `offset` bytes after the first
    /// frame's start; `None` for a block or a mapping.
    #[inline(always)]
    pub(super) fn object_at(&self, offset: usize) -> Option<(u8, u32)> {
        let class = self.contents.load(Relaxed);
        let magic = *MAGIC.get(usize::from(class))?;
        let number = ((offset as u64 * u64::from(magic)) >> 32) as u32;
        let is_start = number < MOST && number as usize * stride(class) == offset;
        is_start.then_some((class, number))
    }

    /// The number of the object that starts `offset` bytes after the first frame's start.
    pub(super) fn object_number(&self, offset: usize) -> Option<u32> {
        match self.contents() {
            Contents::Objects(_) => self.object_at(offset).map(|(_, number)| number),
            _ => (offset == 0).then_some(0),
        }
    }

    /// The record of the sample that the block or mapping is, or 0. (Its last two words have no
    /// other use.)
    pub(crate) fn sample(&self) -> u32 {
        match self.contents() {
            Contents::Objects(_) => 0,
            _ => !self.used[SAMPLE].load(Relaxed) as u32,
        }
    }

    /// Makes the block, of so many usable bytes, or mapping a sample, or none with a record of 0.
    pub(super) fn set_sample(&self, record: u32, usable: usize) {
        self.used[USABLE].store(!(usable as u64), Relaxed);
        self.used[SAMPLE].store(!u64::from(record), Relaxed);
    }

    /// Takes the first run of free objects; returns its first number and its length. Where none was
    /// ever freed, that is the whole slab.
    pub(super) fn take_run(&self) -> Option<(u32, u32)> {
        let (at, word) = (0..).zip(&self.used).find(|(_, word)| word.load(Relaxed) != u64::MAX)?;
        let first = at * 64 + word.load(Relaxed).trailing_ones();
        let (mut next, mut length) = (first, 0);
        for word in self.used.iter().skip(at as usize) {
            let bits = word.load(Relaxed);
            let run = (bits >> (next % 64)).trailing_zeros().min(64 - next % 64);
            word.store(bits | (u64::MAX >> (64 - run) << (next % 64)), Relaxed);
            length += run;
            next += run;
            if run == 0 || !next.is_multiple_of(64) || self.begins_used(next) {
                break;
            }
        }
        self.in_use.store(self.in_use.load(Relaxed) + length as u16, Relaxed);
        Some((first, length))
    }

    fn begins_used(&self, number: u32) -> bool {
        let word = self.used.get(number as usize / 64);
        word.is_none_or(|word| word.load(Relaxed) & 1 == 1)
    }

    /// Gives an object back; `None` if it is not in use, else how many still are.
    #[inline]
    pub(super) fn give(&self, number: u32) -> Option<u16> {
        let word = self.used.get(number as usize / 64)?;
        let (bits, bit) = (word.load(Relaxed), 1 << (number % 64));
        if bits & bit == 0 {
            return None;
        }
        let in_use = self.in_use.load(Relaxed).wrapping_sub(1);
        word.store(bits & !bit, Relaxed);
        self.in_use.store(in_use, Relaxed);
        Some(in_use)
    }

    /// Returns whether an object is in use. (The bits beyond the last object are set, too.)
    pub(super) fn is_in_use(&self, number: u32) -> bool {
        let word = self.used.get(number as usize / 64).map_or(0, |word| word.load(Relaxed));
        let is_there = match self.contents() {
            Contents::Objects(class) => number < objects_in(class, self.frames()),
            _ => number == 0,
        };
        is_there && word >> (number % 64) & 1 == 1
    }

    /// Returns whether no object is free.
    pub(super) fn is_full(&self) -> bool {
        self.used.iter().all(|word| word.load(Relaxed) == u64::MAX)
    }

    /// Describes a mapping of another length, perhaps elsewhere.
    pub(super) fn move_to(&self, first: Pfn, frames: u32) {
        self.first.store(first.0, Relaxed);
        self.frames.store(frames, Relaxed);
    }

    fn counted(&self) -> u32 {
        let bits: u32 = self.used.iter().map(|word| word.load(Relaxed).count_ones()).sum();
        match self.contents() {
            Contents::Objects(class) => bits + objects_in(class, self.frames()) - MOST,
            _ => 1,
        }
    }

    /// Makes the count of objects in use anew from the bits.
    pub(super) fn recount(&self) {
        self.in_use.store(self.counted() as u16, Relaxed);
    }

    pub(super) fn validate(&self) -> Result<(), Broken> {
        let check = Check::of("slab of an own heap").at(self.first().0);
        check.equal(u64::from(self.in_use()), u64::from(self.counted()), "in_use = bits set")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_the_number_that_division_gives() {
        for class in 1..=CLASSES as u8 {
            let (least, most) = orders(class);
            for order in least..=most {
                let slab = OwnSlab::zero();
                slab.set_up(1, (Pfn(8), 1 << order), Contents::Objects(class));
                let objects = objects_in(class, 1 << order);
                assert!((2..=MOST).contains(&objects), "{objects} of class {class}");
                for offset in 0..FRAME_BYTES << order {
                    let number = (offset / stride(class)) as u32;
                    let naive = offset.is_multiple_of(stride(class)) && number < MOST;
                    assert_eq!(slab.object_number(offset), naive.then_some(number));
                }
                assert_eq!(slab.take_run(), Some((0, objects)), "a fresh slab is one run");
                assert!((0..objects).all(|number| slab.is_in_use(number)));
                assert_eq!((slab.take_run(), slab.is_in_use(objects)), (None, false));
                assert_eq!(slab.give(objects / 2), Some(objects as u16 - 1));
                assert_eq!(slab.give(objects / 2), None, "it is free already");
                assert_eq!(slab.take_run(), Some((objects / 2, 1)));
                assert_eq!(slab.validate(), Ok(()));
            }
        }
    }

    /// Frees objects at random, and takes runs until none is left: they are those of a naive list.
    #[test]
    fn runs_are_those_of_a_list() {
        let mut seed = 1u64;
        for class in [1, 2, 5, 8, 20, 40, CLASSES as u8] {
            for _ in 0..200 {
                let (_, most) = orders(class);
                let slab = OwnSlab::zero();
                slab.set_up(1, (Pfn(8), 1 << most), Contents::Objects(class));
                let objects = objects_in(class, 1 << most);
                let mut free = vec![false; objects as usize + 1];
                assert_eq!(slab.take_run(), Some((0, objects)));
                for number in 0..objects {
                    seed = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
                    if seed >> 62 != 0 || seed >> 50 & 1023 == 0 {
                        free[number as usize] = slab.give(number).is_some();
                    }
                }
                while let Some(first) = free.iter().position(|is_free| *is_free) {
                    let length = free[first..].iter().take_while(|is_free| **is_free).count();
                    assert_eq!(slab.take_run(), Some((first as u32, length as u32)));
                    free[first..first + length].fill(false);
                }
                assert_eq!((slab.take_run(), slab.validate()), (None, Ok(())));
            }
        }
    }

    impl OwnSlab {
        fn zero() -> Self {
            // Only tests make a descriptor outside of a list.
            Self {
                used: [const { AtomicU64::new(0) }; WORDS],
                heap: AtomicU32::new(0),
                first: AtomicU32::new(0),
                next: AtomicU32::new(0),
                previous: AtomicU32::new(0),
                next_of_heap: AtomicU32::new(0),
                previous_of_heap: AtomicU32::new(0),
                frames: AtomicU32::new(0),
                in_use: AtomicU16::new(0),
                contents: AtomicU8::new(0),
                is_listed: AtomicU8::new(0),
            }
        }
    }
}
