//! Arrays of descriptors in a piece of a window, mapped as far as they are used.
//!
//! Invariants: entries `0..len` are mapped and hold valid values, behind them nothing of the array
//! is mapped; `len <= capacity`; `len` only grows.

use super::{FRAME_BYTES, FreshZero};
use core::marker::PhantomData;
use core::ptr::NonNull;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicUsize, Ordering};

/// A growing number of `T`, shared by reference only; entries are zero when they come and are not
/// dropped.
pub struct GrowingArray<T> {
    os: &'static dyn Os,
    start: NonNull<T>,
    capacity: usize,
    len: AtomicUsize,
    entries: PhantomData<T>,
}

// SAFETY: the array hands out `&T` only.
unsafe impl<T: Sync> Sync for GrowingArray<T> {}
// SAFETY: it owns its entries, none of which is bound to a thread.
unsafe impl<T: Send + Sync> Send for GrowingArray<T> {}

/// Bytes of a piece that arrays are mapped in.
fn page(os: &dyn Os) -> usize {
    os.page_size().max(FRAME_BYTES)
}

impl<T: FreshZero> GrowingArray<T> {
    /// Bytes of a window that an array of up to `capacity` entries takes.
    pub fn span(os: &dyn Os, capacity: usize) -> usize {
        (capacity * size_of::<T>()).next_multiple_of(page(os))
    }

    /// An empty array at `start`, the first of [`span`](Self::span) bytes of a window that are the
    /// array's alone. Maps nothing.
    ///
    /// # Panics
    /// Where `start` is no multiple of a page, or entries are aligned to more than that.
    pub fn new(os: &'static dyn Os, start: NonNull<u8>, capacity: usize) -> Self {
        assert!(align_of::<T>() <= page(os) && (start.as_ptr() as usize).is_multiple_of(page(os)));
        Self { os, start: start.cast(), capacity, len: AtomicUsize::new(0), entries: PhantomData }
    }

    /// Makes entries `0..len` accessible, and whatever shares their last page. Whoever lets the
    /// array grow holds a lock that keeps others from doing so.
    ///
    /// # Errors
    /// What the OS says; the array is as it was then.
    pub fn grow(&self, len: usize) -> OsResult<()> {
        assert!(len <= self.capacity, "more entries than the array can have");
        let page = page(self.os);
        let mapped = (self.len() * size_of::<T>()).next_multiple_of(page);
        let wanted = (len * size_of::<T>()).next_multiple_of(page);
        if wanted > mapped {
            // SAFETY: both lie within the array's piece of the window.
            let behind = unsafe { self.start.cast::<u8>().add(mapped) };
            self.os.map(behind, wanted - mapped)?;
        }
        if len > self.len() {
            self.len.store(len, Ordering::Release);
        }
        Ok(())
    }
}

impl<T> GrowingArray<T> {
    /// Entry `index`.
    ///
    /// # Panics
    /// Where the array has not grown so far.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, index: usize) -> &T {
        assert!(index < self.len(), "entry outside the array");
        // SAFETY: mapped before `len` was set, and holding a valid `T`: zero bytes by the promise
        // of `FreshZero`, or what was written through shared references.
        unsafe { self.start.add(index).as_ref() }
    }

    /// The first entry, for code that indexes without a check of its own.
    #[inline]
    #[must_use]
    pub fn start(&self) -> NonNull<T> {
        self.start
    }

    /// Entries that are accessible.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether none are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most entries that it can have.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<T> Drop for GrowingArray<T> {
    fn drop(&mut self) {
        let bytes = (self.len() * size_of::<T>()).next_multiple_of(page(self.os));
        if bytes > 0 {
            // SAFETY: all that `grow` has mapped; references to entries borrow the array, and who
            // holds a pointer from `start` has promised not to outlive it. What the system does not
            // take stays mapped and is nobody's.
            let _ = unsafe { self.os.unmap(self.start.cast(), bytes) };
        }
    }
}
