//! Objects of 0 bytes under `QUARRY_HARDEN`: addresses without memory, so every access faults.
//!
//! The pool is a range of inaccessible addresses, 16 bytes for each object, outside the window. A
//! bit tells whether an object is in use. Addresses are handed out in turn, so each is reused as
//! late as possible. If all are in use, or without a pool, such requests get objects with records.

use quarry_mm::stack::MIN_ALIGN;
use quarry_sys::primitive::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const OBJECTS: usize = 64 << 10;
const WORDS: usize = OBJECTS / u64::BITS as usize;
/// Bytes of the bits of all objects.
pub(crate) const BITS_BYTES: usize = WORDS * size_of::<AtomicU64>();
/// Bytes of the addresses of all objects.
pub(crate) const POOL_BYTES: usize = OBJECTS * MIN_ALIGN;

/// The pool of objects of 0 bytes.
pub(crate) struct ZeroSized {
    /// The pool's address; 0 without a pool.
    base: AtomicUsize,
    /// A bit for each object: set while it is in use.
    used: AtomicPtr<AtomicU64>,
    next: AtomicUsize,
}

impl ZeroSized {
    pub(crate) const fn new() -> Self {
        Self {
            base: AtomicUsize::new(0),
            used: AtomicPtr::new(core::ptr::null_mut()),
            next: AtomicUsize::new(0),
        }
    }

    /// The object of 0 bytes to which an address belongs; `None` outside the pool. O(1).
    #[inline]
    pub(crate) fn find(&self, address: usize) -> Option<usize> {
        let base = self.base.load(Ordering::Acquire);
        let offset = address.wrapping_sub(base);
        (base != 0 && offset < POOL_BYTES).then_some(offset / MIN_ALIGN)
    }

    /// Opens the pool.
    ///
    /// # Safety
    /// `used` has [`BITS_BYTES`] zero bytes; these and the [`POOL_BYTES`] addresses from `base` on
    /// are never used by other code.
    pub(crate) unsafe fn open(&self, base: usize, used: *mut AtomicU64) {
        self.used.store(used, Ordering::Relaxed);
        self.base.store(base, Ordering::Release);
    }

    /// The address of an object.
    pub(crate) fn address(&self, number: usize) -> usize {
        self.base.load(Ordering::Relaxed) + number * MIN_ALIGN
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS);
        // SAFETY: `open` stored a pointer to so many words before the base, without which no
        // caller has a number; the words are never given back.
        unsafe { &*self.used.load(Ordering::Relaxed).add(index) }
    }

    /// Returns whether an object is in use.
    pub(crate) fn is_used(&self, number: usize) -> bool {
        self.word(number / 64).load(Ordering::Acquire) >> (number % 64) & 1 == 1
    }

    /// Takes the next free object; `None` if there is none, or no pool. O(1) while most are free.
    pub(crate) fn take(&self) -> Option<usize> {
        if self.base.load(Ordering::Acquire) == 0 {
            return None;
        }
        let from = self.next.fetch_add(1, Ordering::Relaxed) % OBJECTS;
        (from..from + OBJECTS).step_by(64).find_map(|at| {
            let (index, first) = (at / 64 % WORDS, if at == from { at % 64 } else { 0 });
            let mut word = self.word(index).load(Ordering::Relaxed);
            loop {
                let bit = (!word >> first).trailing_zeros() as usize + first;
                if bit >= 64 {
                    return None;
                }
                match self.word(index).compare_exchange(
                    word,
                    word | 1 << bit,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return Some(index * 64 + bit),
                    Err(now) => word = now,
                }
            }
        })
    }

    /// Marks an object as free; returns false if it was free already.
    pub(crate) fn put(&self, number: usize) -> bool {
        let bit = 1 << (number % 64);
        self.word(number / 64).fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_handed_out_once_and_reused_late() {
        let bits = vec![0u64; WORDS];
        let zeros = ZeroSized::new();
        assert_eq!((zeros.take(), zeros.find(4096)), (None, None), "there is no pool yet");
        // SAFETY: the bits live as long as the pool; no code accesses its addresses.
        unsafe { zeros.open(4096, bits.as_ptr().cast_mut().cast()) };
        let first = zeros.take().expect("all are free");
        assert!(zeros.is_used(first) && zeros.put(first) && !zeros.put(first));
        let mut all: Vec<_> = std::iter::from_fn(|| zeros.take()).collect();
        assert_eq!(all.last(), Some(&first), "it was reused after all others");
        all.sort_unstable();
        assert!(all.into_iter().eq(0..OBJECTS));
        assert_eq!(zeros.find(zeros.address(7) + 15), Some(7));
        assert_eq!((zeros.find(4095), zeros.find(4096 + POOL_BYTES)), (None, None));
        assert!(zeros.put(300) && zeros.take() == Some(300));
    }
}
