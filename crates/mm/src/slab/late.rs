//! A value that is made at its first use: the tables of the page cache, and those of a policy when
//! its first cache is created, so that a stack with another policy pays nothing for them.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use quarry_sys::os::OsResult;
use quarry_sys::primitive::{AtomicBool, Ordering};

/// A value that is made once; all zero bytes before.
///
/// Invariant: once `is_ready`, the value is written and never moves.
pub struct Late<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    is_ready: AtomicBool,
}

// SAFETY: `build` writes the value once, before it sets `is_ready` with release ordering, and the
// value is read only after that was seen; a `T` may be shared.
unsafe impl<T: Sync + Send> Sync for Late<T> {}
// SAFETY: it holds a `T`, or nothing.
unsafe impl<T: Send> Send for Late<T> {}

impl<T> Late<T> {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { value: UnsafeCell::new(MaybeUninit::uninit()), is_ready: AtomicBool::new(false) }
    }

    /// Makes the value at the first call. The caller sees to it that one thread calls at a time.
    ///
    /// # Errors
    /// The error of `make`; then there is no value, and the next call tries again.
    pub fn build(&self, make: impl FnOnce() -> OsResult<T>) -> OsResult<&T> {
        if self.get().is_none() {
            let value = make()?;
            // SAFETY: no thread reads before `is_ready`, and only one builds.
            unsafe { (*self.value.get()).write(value) };
            self.is_ready.store(true, Ordering::Release);
        }
        Ok(self.get().expect("just built"))
    }

    /// The value, if it has been made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: `is_ready` is set after the value was written, and it never moves again.
        self.is_ready
            .load(Ordering::Acquire)
            .then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }
}

impl<T> Default for Late<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for Late<T> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: written, and no other reference to what is being dropped exists.
            unsafe { (*self.value.get()).assume_init_drop() };
        }
    }
}
