//! The calling thread's `errno`.

/// Its value.
#[must_use]
pub fn get() -> i32 {
    // SAFETY: __errno_location returns this thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
pub fn set(value: i32) {
    // SAFETY: __errno_location returns this thread's own errno.
    unsafe { *libc::__errno_location() = value };
}

/// Keeps `errno` as it was while this lives: what the operating system says to the allocator is not
/// the caller's.
pub struct KeepErrno(i32);

impl KeepErrno {
    /// Remembers it.
    #[must_use]
    pub fn new() -> Self {
        Self(get())
    }

    /// Says what the caller is to find instead.
    pub fn set(&mut self, value: i32) {
        self.0 = value;
    }
}

impl Default for KeepErrno {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        set(self.0);
    }
}
