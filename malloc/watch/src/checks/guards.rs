//! Guard pages: each sampled object gets its own page, between two inaccessible pages.
//!
//! The design is that of KFENCE (Linux 6.18, `Documentation/dev-tools/kfence.rst`): an object is at
//! the left or the right end of its page, at random. Canaries fill the rest of the page. Freed
//! objects are inaccessible, and their places are reused as late as possible.
//!
//! ```text
//! guard | guard | object 0 | guard | object 1 | guard | .. | object 254 | guard
//! ```

use super::record::{Seal, Tracks};
use super::zones::Range;
use quarry_sys::primitive::Ordering::{AcqRel, Acquire, Relaxed, Release};
use quarry_sys::primitive::{AtomicU8, AtomicUsize};

/// Number of objects in the pool (default of `CONFIG_KFENCE_NUM_OBJECTS`): 2 MiB with their guards.
pub(crate) const GUARDED_OBJECTS: usize = 255;
/// Bytes of a page, whether of an object or a guard.
pub(crate) const GUARD_PAGE: usize = 4096;
pub(crate) const POOL_BYTES: usize = (GUARDED_OBJECTS + 1) * 2 * GUARD_PAGE;

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

    fn rest(&self) -> [Range; 2] {
        let user = self.user();
        let page = user.start & !(GUARD_PAGE - 1);
        let end = user.start + user.bytes;
        [
            Range { start: page, bytes: user.start - page },
            Range { start: end, bytes: page + GUARD_PAGE - end },
        ]
    }

    /// Writes the canaries.
    ///
    /// # Safety
    /// The object is in use, its page is accessible, and the program does not know of it yet.
    pub(crate) unsafe fn arm(&self) {
        // SAFETY: the two ranges lie in the object's page, which is accessible.
        self.rest().into_iter().for_each(|range| unsafe { range.fill(CANARY) });
    }

    /// The address of the first overwritten canary.
    ///
    /// # Safety
    /// The page of the object is accessible.
    pub(crate) unsafe fn damage(&self) -> Option<usize> {
        // SAFETY: the two ranges lie in the object's page, which is accessible.
        self.rest().into_iter().find_map(|range| unsafe { range.first_other(CANARY) })
    }
}

/// The offset of an object's page in the pool.
pub(crate) fn page_of(number: usize) -> usize {
    (number + 1) * 2 * GUARD_PAGE
}

/// The object in whose page, or in whose nearer half of a guard, this offset of the pool lies.
pub(crate) fn nearest(offset: usize) -> usize {
    let page = offset / GUARD_PAGE;
    let pair = (page / 2).saturating_sub(1);
    let is_first_half = offset % GUARD_PAGE < GUARD_PAGE / 2;
    let number = if page % 2 == 1 && page > 1 && !is_first_half { pair + 1 } else { pair };
    number.min(GUARDED_OBJECTS - 1)
}

/// The position of `size` bytes at a multiple of `align`, at the left or right end of a page.
pub(crate) fn place(page: usize, size: usize, align: usize, right: bool) -> Range {
    let start = if right { (page + GUARD_PAGE - size.max(1)) & !(align - 1) } else { page };
    Range { start, bytes: size }
}

/// A queue of the numbers of free objects.
pub(crate) struct FreePlaces {
    ring: [u8; GUARDED_OBJECTS],
    first: u8,
    len: u8,
}

impl FreePlaces {
    pub(crate) const fn new() -> Self {
        Self { ring: [0; GUARDED_OBJECTS], first: 0, len: 0 }
    }

    /// Takes the number that was added first.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let number = self.ring[usize::from(self.first)];
        self.first = ((usize::from(self.first) + 1) % GUARDED_OBJECTS) as u8;
        self.len -= 1;
        Some(usize::from(number))
    }

    /// Adds a number at the end.
    pub(crate) fn push(&mut self, number: usize) {
        let place = (usize::from(self.first) + usize::from(self.len)) % GUARDED_OBJECTS;
        self.ring[place] = number as u8;
        self.len += 1;
    }
}

const _: () = assert!(GUARDED_OBJECTS <= u8::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_beside_an_object_is_the_objects() {
        for number in 0..GUARDED_OBJECTS {
            let page = page_of(number);
            for offset in [page - 1, page, page + GUARD_PAGE - 1, page + GUARD_PAGE] {
                assert_eq!(nearest(offset), number, "{offset:#x}");
            }
        }
        assert_eq!((nearest(0), nearest(POOL_BYTES - 1)), (0, GUARDED_OBJECTS - 1));
    }

    #[test]
    fn objects_lie_in_their_page_at_their_alignment() {
        for size in 0..=GUARD_PAGE {
            for align in [16, 64, GUARD_PAGE] {
                for right in [false, true] {
                    let range = place(1 << 20, size, align, right);
                    assert!(range.start.is_multiple_of(align));
                    assert!(range.start >= 1 << 20);
                    assert!(range.start + size.max(1) <= (1 << 20) + GUARD_PAGE);
                }
            }
        }
    }

    #[test]
    fn places_are_reused_as_late_as_possible() {
        let mut places = FreePlaces::new();
        (0..GUARDED_OBJECTS).for_each(|number| places.push(number));
        for round in 0..1000 {
            let number = places.pop().expect("there are some");
            assert_eq!(number, round % GUARDED_OBJECTS);
            places.push(number);
        }
    }
}
