//! Arrays with a fixed number of entries, each in a reservation of the OS.

use super::order::page_bytes;
use core::marker::PhantomData;
use core::ptr::NonNull;
use quarry_sys::lock::{Contention, CountedLock};
use quarry_sys::os::{Os, OsResult};
use quarry_sys::primitive::{AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// Types whose values may lie in fresh memory, which is zero.
///
/// # Safety
/// All-zero bytes are a valid value, and the right one for a new entry.
pub unsafe trait FreshZero {}

macro_rules! zero_words {
    ($($of:ty),*) => {$(
        // SAFETY: zero bytes are the number 0, `false`, or an atomic 0. This is also true of the
        // model checker's atomics.
        unsafe impl FreshZero for $of {}
    )*};
}
zero_words!(u8, u32, u64, bool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicI64);
// SAFETY: zero bytes are a valid array if they are valid for each entry.
unsafe impl<T: FreshZero, const N: usize> FreshZero for [T; N] {}
// SAFETY: zero bytes are a free lock (word, owner and counters 0) around a zero `T`.
unsafe impl<T: FreshZero> FreshZero for CountedLock<T> {}
// SAFETY: zero bytes are counts of 0, as in `Contention::new`.
unsafe impl FreshZero for Contention {}

/// Declares structs that are [`FreshZero`] because each of their fields is.
#[macro_export]
macro_rules! fresh_zero {
    ($(
        $(#[$of_struct:meta])*
        $access:vis struct $name:ident {
            $($(#[$of_field:meta])* $field_access:vis $field:ident: $of:ty,)*
        }
    )*) => {$(
        $(#[$of_struct])*
        $access struct $name {
            $($(#[$of_field])* $field_access $field: $of,)*
        }

        #[expect(unsafe_code, reason = "the bounds check what the trait asks for")]
        // SAFETY: zero bytes are a valid struct if they are valid for each field, as the bounds
        // require.
        unsafe impl $crate::frame::FreshZero for $name where $($of: $crate::frame::FreshZero),* {}
    )*};
}
pub use fresh_zero;

/// A fixed number of `T`, shared by reference only. Dropping the array does not drop the entries.
pub struct OsArray<T> {
    os: &'static dyn Os,
    start: NonNull<T>,
    len: usize,
    bytes: usize,
    entries: PhantomData<T>,
}

// SAFETY: a shared array hands out only `&T`, which threads may share if `T: Sync`.
unsafe impl<T: Sync> Sync for OsArray<T> {}
// SAFETY: the array owns its entries, and no entry is bound to a thread (`T: Send`).
unsafe impl<T: Send + Sync> Send for OsArray<T> {}

impl<T> OsArray<T> {
    /// An array of `len` entries, each made in place by `make(index)`; fails with the OS's error.
    pub fn filled(
        os: &'static dyn Os,
        len: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> OsResult<Self> {
        let array = Self::map(os, len)?;
        for index in 0..len {
            // SAFETY: `map` has made room for `len` entries, to which no reference exists yet.
            unsafe { array.start.add(index).write(make(index)) };
        }
        Ok(array)
    }

    /// An array of `len` entries, all of them zero; fails with the OS's error.
    pub fn zeroed(os: &'static dyn Os, len: usize) -> OsResult<Self>
    where
        T: FreshZero,
    {
        Self::map(os, len)
    }

    fn map(os: &'static dyn Os, len: usize) -> OsResult<Self> {
        let page = page_bytes(os);
        assert!(align_of::<T>() <= page, "entries are aligned to a page at most");
        let bytes = (len * size_of::<T>()).next_multiple_of(page).max(page);
        let start = os.reserve(bytes)?.cast();
        Ok(Self { os, start, len, bytes, entries: PhantomData })
    }

    /// Entry `index`; panics outside the array.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, index: usize) -> &T {
        assert!(index < self.len, "entry outside the array");
        // SAFETY: the entry is in the reservation, readable since `map`. It is a valid `T`: made by
        // `filled`, zero bytes (promise of `FreshZero`), or written by shared reference.
        unsafe { self.start.add(index).as_ref() }
    }

    /// The first entry, for code that indexes without a bounds check.
    #[inline]
    #[must_use]
    pub fn start(&self) -> NonNull<T> {
        self.start
    }

    /// Number of entries.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl<T> Drop for OsArray<T> {
    fn drop(&mut self) {
        // SAFETY: this is the whole reservation of `map`. Code that has a pointer from `start` has
        // promised not to use it after the array is dropped.
        unsafe { self.os.release(self.start.cast(), self.bytes) };
    }
}
