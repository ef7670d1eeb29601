//! Size classes: 16 bytes apart up to 128, then eight to a doubling, up to 32 KiB.
//!
//! A request above 128 bytes wastes at most an eighth of its class, `(1/8) / (1 + 1/8) = 11.1 %`
//! where each doubling has eight classes at equal steps. From 1 to 8 KiB equal steps would waste
//! memory: a slab has so few objects that as many of 1,792 bytes fit as of 1,664. So there classes
//! from `n` to `2n` are the largest sizes of which 15, 14 and so on down to 8 objects fit into
//! `16 n` bytes. Programs often request a little more than a power of two (SQLite 1,032 bytes for a
//! journal, and 4,368 for a page): a slab has 15 such objects, but 14 with equal steps. These
//! classes are multiples of 64 bytes, for requests aligned to cache lines. Only the first class
//! above 4 KiB is no such multiple: 4,352 bytes would be too few for SQLite's pages.

use crate::slab::CacheId;
use core::fmt::Write;
use quarry_sys::report::Line;

/// Largest request that a class serves, in bytes.
pub const LARGEST: usize = 32 << 10;
pub(crate) const FINE: usize = 8;
/// Number of classes. Class `c` is the slab cache with number `c`, from 1 on.
pub const COUNT: usize = 8 + 8 * 8;
const STEP: usize = 1 << STEP_SHIFT;
const STEP_SHIFT: u32 = 4;
const LINE: usize = 64;

/// Bytes of each class; entry 0 is not a class.
pub const SIZES: [u32; COUNT + 1] = {
    let mut sizes = [0; COUNT + 1];
    let mut class = 1;
    while class <= 8 {
        sizes[class] = (class * STEP) as u32;
        class += 1;
    }
    let mut doubling = 128;
    while doubling < LARGEST {
        let mut eighth = 1;
        while eighth <= 8 {
            sizes[class] = step_of(doubling, eighth) as u32;
            class += 1;
            eighth += 1;
        }
        doubling *= 2;
    }
    sizes
};

const fn step_of(doubling: usize, step: usize) -> usize {
    if matches!(doubling, 1024 | 2048 | 4096) {
        // See the head of this file.
        let most = doubling * 16 / (16 - step);
        let unit = if doubling == 4096 && step == 1 { STEP } else { LINE };
        most / unit * unit
    } else {
        doubling + doubling / 8 * step
    }
}

/// Entry `(bytes + 15) / 16` is the class of a request; fast paths in assembler read this table.
pub static CLASS_OF: [u8; LARGEST / STEP + 1] = {
    let mut table = [1; LARGEST / STEP + 1];
    let (mut step, mut class) = (1, 1);
    while step <= LARGEST / STEP {
        while (SIZES[class] as usize) < step * STEP {
            class += 1;
        }
        table[step] = class as u8;
        step += 1;
    }
    table
};

const _: () = assert!(SIZES[COUNT] as usize == LARGEST);

/// The class of a request; panics above [`LARGEST`]. O(1): one byte of a table of 2 KiB.
#[inline(always)]
#[must_use]
pub fn of(size: usize) -> CacheId {
    let class = CLASS_OF[(size + STEP - 1) >> STEP_SHIFT];
    // SAFETY: the table holds 1..=COUNT, and COUNT < MAX_CACHES.
    unsafe { CacheId::new_unchecked(class) }
}

/// [`of`] without the check of the table's bounds, for the fast path.
///
/// # Safety
/// `size <= LARGEST`.
#[inline(always)]
#[must_use]
pub unsafe fn of_unchecked(size: usize) -> CacheId {
    debug_assert!(size <= LARGEST);
    // SAFETY: the caller's promise keeps the index inside the table; its entries are 1..=COUNT.
    unsafe { CacheId::new_unchecked(*CLASS_OF.get_unchecked((size + STEP - 1) >> STEP_SHIFT)) }
}

/// The class that serves requests for a hardly used `class`: up to 128 bytes `class` itself, else
/// the next fourth or eighth class between two powers of two. At most 35 % of it is wasted.
#[must_use]
pub fn coarse(class: CacheId) -> CacheId {
    let index = class.index();
    if index <= FINE { class } else { CacheId::new(FINE + (index - FINE).next_multiple_of(4)) }
}

/// The name of a class: `malloc-SIZE`. Written digit by digit: with `core::fmt` this would take a
/// third of the time that making a cache takes.
pub(crate) fn name(class: usize) -> Line<24> {
    let (mut digits, mut first, mut rest) = ([0; 10], 10, SIZES[class]);
    while rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut name = Line::default();
    let number = core::str::from_utf8(&digits[first..]).unwrap_or("?");
    let _ = name.write_str("malloc-").and_then(|()| name.write_str(number));
    name
}

/// Sizes that a class serves for itself and for finer classes: `size - least <= width`, unsigned.
#[repr(C)]
pub struct Served {
    least: usize,
    width: usize,
}

impl Served {
    const NONE: Self = Self { least: 0, width: 0 };

    /// Returns whether a request of `size` bytes can have got an object of this class.
    #[inline(always)]
    #[must_use]
    pub const fn has(&self, size: usize) -> bool {
        size.wrapping_sub(self.least) <= self.width
    }
}

/// The requests that each class serves, to check the size when an object is deleted; entry 0 is not
/// a class. An entry has the size of a [`Geometry`](crate::slab::Geometry).
pub static SERVED: [Served; COUNT + 1] = {
    let mut served = [const { Served::NONE }; COUNT + 1];
    let mut class = 1;
    while class <= COUNT {
        // The first class that this one stands in for.
        let first =
            if class <= FINE || !(class - FINE).is_multiple_of(4) { class } else { class - 3 };
        let least = if first == 1 { 0 } else { SIZES[first - 1] as usize + 1 };
        served[class] = Served { least, width: SIZES[class] as usize - least };
        class += 1;
    }
    served
};

/// The smallest class that holds `size` bytes at a multiple of `align` (a power of two). A class
/// serves every alignment that divides its size: each object lies a multiple of this size before
/// the end of its slab, and a slab at a multiple of the slab's size. O(8).
#[must_use]
pub fn of_aligned(size: usize, align: usize) -> Option<CacheId> {
    if size > LARGEST || align > LARGEST {
        return None;
    }
    let first = of(size.max(align)).index();
    (first..=COUNT).find(|class| (SIZES[*class] as usize).is_multiple_of(align)).map(CacheId::new)
}

const _: () = assert!(COUNT < crate::slab::MAX_CACHES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_fits_its_class_and_wastes_at_most_an_eighth() {
        for size in 1..=LARGEST {
            let class = SIZES[of(size).index()] as usize;
            assert!(class >= size, "{size} in a class of {class}");
            if size > 128 {
                assert!((class - size) * 8 <= class, "{size} wastes {} of {class}", class - size);
            }
            assert!(of(size).index() == 1 || (SIZES[of(size).index() - 1] as usize) < size);
        }
    }

    /// For a request from 1 to 8 KiB, a slab of 16 to 64 KiB has as many objects of its class as of
    /// the request's own size, or one less because classes are multiples of a cache line.
    #[test]
    fn middling_requests_share_a_slab_with_as_many_as_fit() {
        for size in 1025..=8192_usize {
            let slab = 16 * size.next_power_of_two() / 2;
            let class = SIZES[of(size).index()] as usize;
            let lost = slab / size - slab / class;
            let next_line = size.next_multiple_of(LINE);
            assert!(lost == 0 || lost == 1 && slab / next_line < slab / size, "{size} in {class}");
        }
        for (size, objects) in [(1032_usize, 15), (2056, 15), (4104, 15), (4368, 15), (1808, 8)] {
            let slab = 16 * size.next_power_of_two() / 2;
            assert_eq!(slab / SIZES[of(size).index()] as usize, objects, "{size}");
        }
    }

    #[test]
    fn two_of_eight_classes_stand_in_for_the_others() {
        let sizes = |size: usize| SIZES[coarse(of(size)).index()];
        assert_eq!([16, 100, 128].map(sizes), [16, 112, 128]);
        assert_eq!([129, 192, 193, 256, 257].map(sizes), [192, 192, 256, 256, 384]);
        assert_eq!([16_385, 24_577, LARGEST].map(sizes), [24_576, 32_768, 32_768]);
        for size in 1..=LARGEST {
            let class = SIZES[coarse(of(size)).index()] as usize;
            assert!(class >= size && (size <= 128 || (class - size) * 100 <= class * 35), "{size}");
        }
    }

    #[test]
    fn a_class_serves_what_it_is_asked_for() {
        for size in 0..=LARGEST + 100 {
            let serving: Vec<usize> =
                (1..=COUNT).filter(|class| SERVED[*class].has(size)).collect();
            let mut asked = Vec::new();
            if size <= LARGEST {
                asked = vec![of(size).index(), coarse(of(size)).index()];
                asked.dedup();
            }
            assert_eq!(serving, asked, "{size}");
        }
        assert!(!SERVED[COUNT].has(usize::MAX));
    }

    #[test]
    fn aligned_classes_are_multiples_of_the_alignment() {
        for shift in 4..=15 {
            let align = 1 << shift;
            for size in [1, 15, 100, 129, 1000, 4097, 20_000, LARGEST] {
                let class = of_aligned(size, align).expect("powers of two are classes");
                let bytes = SIZES[class.index()] as usize;
                assert!(bytes >= size && bytes.is_multiple_of(align));
            }
        }
        assert_eq!(of_aligned(LARGEST + 1, 16), None);
        assert_eq!(of_aligned(1, 2 * LARGEST), None);
    }
}
