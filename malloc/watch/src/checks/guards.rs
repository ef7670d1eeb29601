//! Guard pages: each sampled object gets its own page, between two inaccessible pages.
//!
//! The design is that of KFENCE (Linux 6.18, `Documentation/dev-tools/kfence.rst`): an object is at
//! the left or the right end of its page, at random. Canaries fill the rest of the page. Freed
//! objects are inaccessible, and their places are reused as late as possible.
//!
//! ```text
//! guard | guard | object 0 | guard | object 1 | guard | .. | object 254 | guard
//! ```
//! The pool has 2 MiB: a system with larger pages has fewer objects.

use super::record::{Seal, Tracks};
use super::zones::Range;
use quarry_sys::primitive::Ordering::{AcqRel, Acquire, Relaxed, Release};
use quarry_sys::primitive::{AtomicU8, AtomicUsize};

/// Maximum number of objects in the pool (default of `CONFIG_KFENCE_NUM_OBJECTS`).
pub(crate) const MOST_GUARDED: usize = 255;
/// With guards, `MOST_GUARDED` objects with pages of 4 KiB.
pub(crate) const POOL_BYTES: usize = 2 << 20;

/// Number of objects in the pool, with pages of `page` bytes.
pub(crate) fn guarded_objects(page: usize) -> usize {
    (POOL_BYTES / (2 * page)).saturating_sub(1).min(MOST_GUARDED)
}

/// `0xaa ^ (address & 7)` for each byte (`KFENCE_CANARY_PATTERN_U8`, Linux 6.18, `mm/kfence`).
const CANARY: u64 = u64::from_le_bytes([0xaa, 0xab, 0xa8, 0xa9, 0xae, 0xaf, 0xac, 0xad]);

const NEVER: u8 = 0;
const LIVE: u8 = 1;
const FREED: u8 = 2;

/// The record of one object of the pool. It is outside the pool, so that programs do not reach it.
#[repr(C)]
pub(crate) struct GuardedObject {
    state: AtomicU8,
    address: AtomicUsize,
    size: AtomicUsize,
    pub(crate) tracks: Tracks,
}

impl GuardedObject {
    /// Marks the object as in use.
    pub(crate) fn set(&self, user: Range) {
        self.address.store(user.start, Relaxed);
        self.size.store(user.bytes, Relaxed);
        self.state.store(LIVE, Release);
    }

    /// Marks the object as freed; returns false if it was not in use.
    pub(crate) fn free(&self) -> bool {
        self.state.compare_exchange(LIVE, FREED, AcqRel, Relaxed).is_ok()
    }

    /// The state of the object; `Broken` if it was never in use.
    pub(crate) fn seal(&self) -> Seal {
        match self.state.load(Acquire) {
            LIVE => Seal::Live,
            NEVER => Seal::Broken,
            _ => Seal::Freed,
        }
    }

    /// The bytes that the program uses, or used before it freed the object.
    pub(crate) fn user(&self) -> Range {
        Range { start: self.address.load(Relaxed), bytes: self.size.load(Relaxed) }
    }

    fn rest(&self, page: usize) -> [Range; 2] {
        let user = self.user();
        let start = user.start & !(page - 1);
        let end = user.start + user.bytes;
        [
            Range { start, bytes: user.start - start },
            Range { start: end, bytes: start + page - end },
        ]
    }

    /// Writes the canaries into the object's page of `page` bytes.
    ///
    /// # Safety
    /// The object is in use, its page is accessible, and the program does not know of it yet.
    pub(crate) unsafe fn arm(&self, page: usize) {
        // SAFETY: the two ranges lie in the object's page, which is accessible.
        self.rest(page).into_iter().for_each(|range| unsafe { range.fill(CANARY) });
    }

    /// The address of the first overwritten canary.
    ///
    /// # Safety
    /// The page of the object is accessible.
    pub(crate) unsafe fn damage(&self, page: usize) -> Option<usize> {
        // SAFETY: the two ranges lie in the object's page, which is accessible.
        self.rest(page).into_iter().find_map(|range| unsafe { range.first_other(CANARY) })
    }
}

/// The offset of an object's page in the pool.
pub(crate) fn page_of(number: usize, page: usize) -> usize {
    (number + 1) * 2 * page
}

/// The object in whose page, or in whose nearer half of a guard, this offset of the pool lies.
pub(crate) fn nearest(offset: usize, page: usize) -> usize {
    let place = offset / page;
    let pair = (place / 2).saturating_sub(1);
    let is_first_half = offset % page < page / 2;
    let number = if place % 2 == 1 && place > 1 && !is_first_half { pair + 1 } else { pair };
    number.min(guarded_objects(page) - 1)
}

/// The position of `size` bytes at a multiple of `align`, at the left or right end of `page`.
pub(crate) fn place(page: Range, size: usize, align: usize, right: bool) -> Range {
    let last = page.start + page.bytes - size.max(1);
    Range { start: if right { last & !(align - 1) } else { page.start }, bytes: size }
}

/// A queue of the numbers of free objects.
pub(crate) struct FreePlaces {
    ring: [u8; MOST_GUARDED],
    first: u8,
    len: u8,
}

impl FreePlaces {
    pub(crate) const fn new() -> Self {
        Self { ring: [0; MOST_GUARDED], first: 0, len: 0 }
    }

    /// Takes the number that was added first.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let number = self.ring[usize::from(self.first)];
        self.first = ((usize::from(self.first) + 1) % MOST_GUARDED) as u8;
        self.len -= 1;
        Some(usize::from(number))
    }

    /// Adds a number at the end.
    pub(crate) fn push(&mut self, number: usize) {
        let place = (usize::from(self.first) + usize::from(self.len)) % MOST_GUARDED;
        self.ring[place] = number as u8;
        self.len += 1;
    }
}

const _: () = assert!(MOST_GUARDED <= u8::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

    #[test]
    fn an_address_beside_an_object_is_the_objects() {
        assert_eq!(PAGES.map(guarded_objects), [255, 63, 15]);
        for page in PAGES {
            for number in 0..guarded_objects(page) {
                let start = page_of(number, page);
                for offset in [start - 1, start, start + page - 1, start + page] {
                    assert_eq!(nearest(offset, page), number, "{offset:#x}");
                }
            }
            let last = guarded_objects(page) - 1;
            assert_eq!((nearest(0, page), nearest(POOL_BYTES - 1, page)), (0, last));
            assert_eq!(page_of(last, page) + 2 * page, POOL_BYTES, "the last guard");
        }
    }

    #[test]
    fn objects_lie_in_their_page_at_their_alignment() {
        for bytes in PAGES {
            let page = Range { start: 1 << 20, bytes };
            for size in (0..=4096).chain([bytes - 1, bytes]) {
                for align in [16, 64, 4096] {
                    for right in [false, true] {
                        let range = place(page, size, align, right);
                        assert!(range.start.is_multiple_of(align));
                        assert!(range.start >= page.start);
                        assert!(range.start + size.max(1) <= page.start + bytes);
                    }
                }
            }
        }
    }

    #[test]
    fn places_are_reused_as_late_as_possible() {
        let mut places = FreePlaces::new();
        (0..MOST_GUARDED).for_each(|number| places.push(number));
        for round in 0..1000 {
            let number = places.pop().expect("there are some");
            assert_eq!(number, round % MOST_GUARDED);
            places.push(number);
        }
    }
}
