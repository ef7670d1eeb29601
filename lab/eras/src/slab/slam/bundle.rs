//! Bundles: a few free objects; the first of them holds the addresses of the others.
//!
//! A linked list touches every object. A bundle touches one of up to sixteen: its first object, the
//! *head*, holds `{address of the next bundle's head >> 4 : 44 | digest : 20}` in word 0 and the
//! addresses of the bundle's other objects in the next words. So a thread that follows a chain
//! waits for one cache miss per bundle. (With larger bundles, a CPU that frees the objects of
//! several other CPUs would fill fewer of them.)
//!
//! A program that writes to a freed object may change these words. The digest misses one such
//! change in a million.
//!
//! Equation: `digest(head) = fold(next) ^ hash(addresses of the others)`.

use core::mem::MaybeUninit;
use quarry_mm::slab::{Cache, written_after_free};
use quarry_sys::percpu::Object;
use quarry_sys::primitive::Access;
use quarry_sys::primitive::touch::touch_bytes;

/// Maximum number of objects of a bundle: the words of two cache lines.
pub(super) const BUNDLE_MOST: usize = if cfg!(quarry_model) { 2 } else { 16 };
/// Maximum number of bytes in a bundle of more than [`FEW`] objects: half of a sheaf's.
const BUNDLE_BYTES: usize = 64 << 10;
/// Objects of a bundle of the largest objects.
const FEW: usize = 4;
const DIGEST_BITS: u32 = 20;
const DIGEST: u64 = (1 << DIGEST_BITS) - 1;

/// The number of objects in a bundle. The head needs a word for each of them, so the stride bounds
/// their number; the smallest stride, 16 bytes, has room for 2.
pub(super) fn size(stride: usize) -> usize {
    let by_bytes = (BUNDLE_BYTES / stride).max(FEW);
    (stride / size_of::<u64>()).min(by_bytes).clamp(2, BUNDLE_MOST)
}

/// Word 0 of a head that links to `next`; `hash` is that of the other words.
fn first_word(next: Option<Object>, hash: u64) -> u64 {
    let link = next.map_or(0, |next| next.as_ptr() as u64) >> 4;
    link << DIGEST_BITS | (hash ^ fold(link)) & DIGEST
}

fn fold(link: u64) -> u64 {
    (link ^ link >> DIGEST_BITS ^ link >> (2 * DIGEST_BITS)) & DIGEST
}

fn link(word: u64) -> u64 {
    word >> DIGEST_BITS
}

fn hash(addresses: impl Iterator<Item = u64>) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let sum = addresses.fold(ODD, |sum, address| sum.rotate_left(7) ^ address);
    sum.wrapping_mul(ODD) >> (u64::BITS - DIGEST_BITS)
}

/// Makes a bundle without a link, and returns its head.
///
/// # Safety
/// `objects` are `size(stride)` different free objects of one cache, which the caller owns.
#[inline]
pub(super) unsafe fn tie(objects: &[Object]) -> Object {
    let (head, others) = (objects[0], &objects[1..]);
    touch_bytes(head.as_ptr(), size_of_val(objects), Access::Write);
    let words = head.cast::<u64>();
    let hash = hash(others.iter().map(|object| object.as_ptr() as u64));
    // SAFETY: the head has a word for each object of the bundle, is aligned to 16, and is the
    // caller's.
    unsafe {
        words.write(first_word(None, hash));
        for (index, object) in others.iter().enumerate() {
            words.add(index + 1).write(object.as_ptr() as u64);
        }
    }
    head
}

/// # Safety
/// `head` is the head of a bundle that the caller owns.
#[inline]
pub(super) unsafe fn set_next(head: Object, next: Option<Object>) {
    let first = head.cast::<u64>();
    // SAFETY: objects have at least 16 bytes, aligned to 16; a head begins with its link.
    unsafe {
        let old = first.read();
        first.write(first_word(next, old ^ fold(link(old))));
    }
}

/// Writes the objects of a bundle to `out`, the head last, and returns the next bundle. Aborts if
/// the program has overwritten the head.
///
/// # Safety
/// `head` is the head of a bundle of `out.len()` objects of `cache`, which the caller owns.
#[inline]
pub(super) unsafe fn untie(
    cache: &Cache,
    head: Object,
    out: &mut [MaybeUninit<Object>],
) -> Option<Object> {
    touch_bytes(head.as_ptr(), size_of_val(out), Access::Read);
    let (last, others) = out.split_last_mut().expect("a bundle has two objects or more");
    let words = head.cast::<u64>();
    // SAFETY: as for `tie`.
    let first = unsafe { words.read() };
    let behind = (1..=others.len()).map(|index| {
        // SAFETY: as for `tie`; any value of the word is valid here.
        unsafe { words.add(index).read() }
    });
    if first & DIGEST != hash(behind.clone()) ^ fold(link(first)) {
        written_after_free(cache, head);
    }
    for (place, address) in others.iter_mut().zip(behind) {
        // SAFETY: the digest shows that these are the addresses that `tie` wrote.
        place.write(unsafe { Object::new_unchecked(address as *mut u8) });
    }
    last.write(head);
    Object::new((link(first) << 4) as *mut u8)
}

/// Returns the next bundle. Aborts like [`untie`].
///
/// # Safety
/// Same as for [`untie`], with bundles of `size` objects.
pub(super) unsafe fn next(cache: &Cache, head: Object, size: usize) -> Option<Object> {
    let mut out = [MaybeUninit::uninit(); BUNDLE_MOST];
    // SAFETY: the caller's promise is passed on.
    unsafe { untie(cache, head, &mut out[..size]) }
}

#[cfg(all(test, not(quarry_model)))]
mod tests {
    use super::*;
    use crate::slab::slam::unused_cache;

    #[repr(align(64))]
    struct Memory([[u64; 16]; 16]);

    #[test]
    fn a_bundle_holds_its_objects_and_one_link() {
        let mut memory = Memory([[0; 16]; 16]);
        let objects: Vec<Object> =
            memory.0.iter_mut().map(|object| core::ptr::NonNull::from(object).cast()).collect();
        for size in 2..=BUNDLE_MOST {
            let mut out = [MaybeUninit::uninit(); BUNDLE_MOST];
            // SAFETY: the memory is the test's.
            unsafe {
                let head = tie(&objects[..size]);
                assert_eq!(next(&unused_cache(64), head, size), None);
                for link in [Some(objects[15]), None, Some(objects[3])] {
                    set_next(head, link);
                    assert_eq!(untie(&unused_cache(64), head, &mut out[..size]), link);
                }
                let found: Vec<Object> =
                    out[..size].iter().map(|object| object.assume_init()).collect();
                assert_eq!(found[size - 1], objects[0]);
                assert_eq!(found[..size - 1], objects[1..size]);
            }
        }
    }

    #[test]
    fn the_digest_sees_each_word() {
        let addresses = [0x7000_1230, 0x7000_4560, 0x7000_7890];
        let whole = hash(addresses.into_iter());
        for (index, bit) in (0..3).flat_map(|index| (0..64).map(move |bit| (index, bit))) {
            let mut changed = addresses;
            changed[index] ^= 1 << bit;
            assert_ne!(hash(changed.into_iter()), whole, "bit {bit} of word {index}");
        }
    }

    #[test]
    fn a_bundle_fits_into_its_head() {
        assert_eq!([16, 24, 32, 64, 128, 256].map(size), [2, 3, 4, 8, 16, 16]);
        assert_eq!([4096, 8192, 32 << 10, 1 << 20].map(size), [16, 8, 4, 4]);
    }
}
