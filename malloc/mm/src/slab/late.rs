//! A value that is made at its first use: the tables of the page cache, and those of some policies.
//! So it costs nothing in a [`Stack`](crate::stack::Stack) that never uses it.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use quarry_sys::os::OsResult;
use quarry_sys::primitive::{AtomicBool, Ordering};

/// A value that is made once.
///
/// Invariant: once `is_ready`, the value is written and never moves.
pub struct Late<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    is_ready: AtomicBool,
}

// SAFETY: `build` writes the value once and then sets `is_ready` with release ordering. The value
// is read only after `is_ready` was seen with acquire ordering, and a `T` may be shared.
unsafe impl<T: Sync + Send> Sync for Late<T> {}
// SAFETY: it holds a `T`, or no value.
unsafe impl<T: Send> Send for Late<T> {}

impl<T> Late<T> {
    /// No value yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { value: UnsafeCell::new(MaybeUninit::uninit()), is_ready: AtomicBool::new(false) }
    }

    /// Makes the value at the first call. Only one thread may call at a time.
    ///
    /// # Errors
    /// The error of `make`. The next call tries again.
    pub fn build(&self, make: impl FnOnce() -> OsResult<T>) -> OsResult<&T> {
        if self.get().is_none() {
            let value = make()?;
            // SAFETY: no thread reads before `is_ready`, and only one thread builds.
            unsafe { (*self.value.get()).write(value) };
            self.is_ready.store(true, Ordering::Release);
        }
        Ok(self.get().expect("just built"))
    }

    /// The value, if it has been made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: `is_ready` is set after the value was written, and the value never moves.
        self.is_ready
            .load(Ordering::Acquire)
            .then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }
}

impl<T> Drop for Late<T> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: the value is written, and `&mut self` excludes other references.
            unsafe { (*self.value.get()).assume_init_drop() };
        }
    }
}
