//! Arrays that grow in place: each has a piece of reserved addresses, mapped as far as it is used.
//!
//! Two arrays may begin at one address: one grows down, the other up. Then the kernel merges them
//! into one mapping, and in a small program they share a page table, so a fork copies one less.
//!
//! Invariants: entries `0..len` are mapped and hold valid values; no page after them is mapped;
//! `len <= capacity`; `len` only grows.

use super::array::FreshZero;
use super::order::page_bytes;
use core::marker::PhantomData;
use core::ptr::NonNull;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::announce::frame_array;
use quarry_sys::primitive::{AtomicUsize, Ordering};

/// Entry `i` lies `i` entries after the start.
pub(super) const UP: bool = false;
/// Entry `i` lies `i + 1` entries before the start.
pub const DOWN: bool = true;

/// An array of `T` that grows, shared by reference only. New entries are zero; entries are not
/// dropped.
pub struct GrowingArray<T, const DIRECTION: bool = UP> {
    os: &'static dyn Os,
    start: NonNull<T>,
    capacity: usize,
    len: AtomicUsize,
    entries: PhantomData<T>,
}

// SAFETY: a shared array hands out only `&T`, which threads may share if `T: Sync`.
unsafe impl<T: Sync, const DIRECTION: bool> Sync for GrowingArray<T, DIRECTION> {}
// SAFETY: the array owns its entries, and no entry is bound to a thread (`T: Send`).
unsafe impl<T: Send + Sync, const DIRECTION: bool> Send for GrowingArray<T, DIRECTION> {}

impl<T: FreshZero, const DIRECTION: bool> GrowingArray<T, DIRECTION> {
    /// Bytes of a window that an array of up to `capacity` entries takes.
    pub fn span(os: &dyn Os, capacity: usize) -> usize {
        (capacity * size_of::<T>()).next_multiple_of(page_bytes(os))
    }

    /// An empty array, which owns [`span`](Self::span) bytes from `start` on in its direction. Maps
    /// nothing. Panics if `start` is not aligned to a page, or if `T` needs a larger alignment than
    /// a page has.
    pub fn new(os: &'static dyn Os, start: NonNull<u8>, capacity: usize) -> Self {
        assert!(
            align_of::<T>() <= page_bytes(os)
                && (start.as_ptr() as usize).is_multiple_of(page_bytes(os))
        );
        Self { os, start: start.cast(), capacity, len: AtomicUsize::new(0), entries: PhantomData }
    }

    /// Tells a simulated machine that entry `n` describes frame `n`. Does nothing in products.
    pub fn announce_as_of_frames(&self) {
        let start = self.start.as_ptr() as usize;
        frame_array(start, self.capacity, size_of::<T>(), DIRECTION);
    }

    /// Makes entries `0..len` accessible. Only one thread may call this at a time.
    ///
    /// # Errors
    /// The error of the OS; the array has not changed then.
    pub fn grow(&self, len: usize) -> OsResult<()> {
        assert!(len <= self.capacity, "more entries than the array can have");
        let page = page_bytes(self.os);
        let mapped = (self.len() * size_of::<T>()).next_multiple_of(page);
        let wanted = (len * size_of::<T>()).next_multiple_of(page);
        if wanted > mapped {
            self.os.map(self.piece(mapped, wanted), wanted - mapped)?;
        }
        if len > self.len() {
            self.len.store(len, Ordering::Release);
        }
        Ok(())
    }
}

impl<T, const DIRECTION: bool> GrowingArray<T, DIRECTION> {
    /// Entry `index`; panics if the array has not grown to it.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, index: usize) -> &T {
        assert!(index < self.len(), "entry outside the array");
        // SAFETY: the entry was mapped before `len` was set. It holds a valid `T`: zero bytes
        // (promise of `FreshZero`), or a value written through a shared reference.
        unsafe { self.place(index).as_ref() }
    }

    /// Entry `index`, if the array has grown to it.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        // SAFETY: same as in `at`.
        (index < self.len()).then(|| unsafe { self.place(index).as_ref() })
    }

    /// # Safety
    /// `index < capacity`.
    #[inline(always)]
    unsafe fn place(&self, index: usize) -> NonNull<T> {
        // SAFETY: the entry lies in the array's piece of the window: `index < capacity` (promise).
        unsafe { if DIRECTION == UP { self.start.add(index) } else { self.start.sub(index + 1) } }
    }

    /// Gives the memory of `count` entries from `first` on, which fill whole system pages, back to
    /// the system; they read as zero afterwards. Returns false where the system refuses.
    ///
    /// # Safety
    /// The entries are atomics, or structs of atomics, and already zero: no reader sees a change.
    pub unsafe fn purge(&self, first: usize, count: usize) -> bool {
        let (near, far) = (first * size_of::<T>(), (first + count) * size_of::<T>());
        let page = page_bytes(self.os);
        debug_assert!(near.is_multiple_of(page) && far.is_multiple_of(page));
        assert!(far <= (self.len() * size_of::<T>()).next_multiple_of(page), "mapped entries only");
        self.os.purge_metadata(self.piece(near, far), far - near).is_ok()
    }

    /// Bytes of a page of the system, or of a frame if a frame is larger.
    pub fn page_bytes(&self) -> usize {
        page_bytes(self.os)
    }

    fn piece(&self, near: usize, far: usize) -> NonNull<u8> {
        let start = self.start.cast::<u8>();
        // SAFETY: the bytes lie within the array's piece of the window, as its entries do.
        unsafe { if DIRECTION == UP { start.add(near) } else { start.sub(far) } }
    }

    /// Number of entries that are accessible.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The maximum number of entries that the array can have.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<T, const DIRECTION: bool> Drop for GrowingArray<T, DIRECTION> {
    fn drop(&mut self) {
        let bytes = (self.len() * size_of::<T>()).next_multiple_of(page_bytes(self.os));
        if bytes > 0 {
            // SAFETY: this is all that `grow` has mapped; code that has a bare pointer has promised
            // not to use it after the drop. Pages that the system refuses to unmap stay mapped.
            let _ = unsafe { self.os.unmap(self.piece(0, bytes), bytes) };
        }
    }
}

impl<T> GrowingArray<T, UP> {
    /// The first entry, for code that indexes without a bounds check.
    #[inline]
    #[must_use]
    pub fn start(&self) -> NonNull<T> {
        self.start
    }
}
