//! The calling thread's `errno`, and the errors of system calls.

/// An error of a system call, as its positive `errno`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OsError(pub i32);

/// Result of a system call.
pub type OsResult<T> = Result<T, OsError>;

impl OsError {
    /// The `errno` that the last failed call on this thread has left.
    #[must_use]
    pub fn last() -> Self {
        Self(last())
    }
}

/// Prints what the standard library prints. May allocate, if the program has set a locale.
impl core::fmt::Display for OsError {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut text = [0; 128];
        // SAFETY: the call writes at most this many bytes.
        unsafe { libc::strerror_r(self.0, text.as_mut_ptr().cast(), text.len()) };
        let text = core::ffi::CStr::from_bytes_until_nul(&text).unwrap_or_default();
        write!(out, "{} (os error {})", text.to_str().unwrap_or_default(), self.0)
    }
}

/// With the text: a program whose `main` returns an error prints it in this form.
impl core::fmt::Debug for OsError {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "OsError({self})")
    }
}

impl core::error::Error for OsError {}

/// The `errno` of the error; without one, an `errno` that stands for its kind, or else `EIO`.
#[cfg(feature = "std")]
impl From<std::io::Error> for OsError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        Self(error.raw_os_error().unwrap_or(match error.kind() {
            ErrorKind::InvalidInput => libc::EINVAL,
            ErrorKind::NotFound => libc::ENOENT,
            ErrorKind::PermissionDenied => libc::EACCES,
            ErrorKind::Interrupted => libc::EINTR,
            ErrorKind::TimedOut => libc::ETIMEDOUT,
            ErrorKind::Unsupported => libc::ENOTSUP,
            ErrorKind::OutOfMemory => libc::ENOMEM,
            ErrorKind::StorageFull => libc::ENOSPC,
            _ => libc::EIO,
        }))
    }
}

#[cfg(feature = "std")]
impl From<OsError> for std::io::Error {
    fn from(error: OsError) -> Self {
        Self::from_raw_os_error(error.0)
    }
}

/// Returns the calling thread's `errno`.
#[must_use]
pub fn last() -> i32 {
    // SAFETY: __errno_location returns the thread's errno, which lives as long as the thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`.
pub fn set(value: i32) {
    // SAFETY: as for `last`; only this thread writes it.
    unsafe { *libc::__errno_location() = value };
}

/// Hides the allocator's own failed system calls: dropping this sets `errno` to its old value.
pub struct KeepErrno(i32);

impl KeepErrno {
    /// Remembers the present `errno`.
    #[must_use]
    pub fn new() -> Self {
        Self(last())
    }

    /// Changes the value to which the drop sets `errno`.
    pub fn set(&mut self, value: i32) {
        self.0 = value;
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        set(self.0);
    }
}
