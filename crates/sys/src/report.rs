//! Reports an error after which Quarry cannot go on: one line on standard error, then `abort`.
//!
//! The text is formatted on a stack of Quarry's own and written without a buffer, because
//! the caller may be anywhere inside the allocator.

use crate::file_descriptor::write_all;
use crate::own_stack;
use core::fmt::{self, Write};

/// A line of at most `N` bytes; a longer text is truncated silently.
pub struct Line<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Line<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Line<N> {
    /// An empty line.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// The bytes written so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let take = text.len().min(N - self.len);
        self.bytes[self.len..self.len + take].copy_from_slice(&text.as_bytes()[..take]);
        self.len += take;
        Ok(())
    }
}

/// Writes to a file descriptor, without buffering and without allocating.
pub struct FdWriter(pub i32);

impl Write for FdWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: the text is a live slice.
        unsafe { write_all(self.0, text.as_ptr(), text.len()) }.map_err(|_| fmt::Error)
    }
}

/// Writes `quarry: <message>` to standard error. Ignores failures, such as a closed descriptor.
pub fn warn(message: fmt::Arguments<'_>) {
    warn_to(libc::STDERR_FILENO, message);
}

/// [`warn`] to another descriptor.
#[cold]
pub fn warn_to(descriptor: i32, message: fmt::Arguments<'_>) {
    own_stack::run(|| write_line(descriptor, message));
}

fn write_line(descriptor: i32, message: fmt::Arguments<'_>) {
    let mut line = Line::<512>::default();
    let _ = line.write_str("quarry: ");
    let _ = line.write_fmt(message);
    if line.len == 512 {
        line.len = 511;
    }
    let _ = line.write_str("\n");
    // SAFETY: the line is initialised for its length.
    let _ = unsafe { write_all(descriptor, line.bytes.as_ptr(), line.len) };
}

/// Reports a misuse or a broken invariant in one line and aborts the process.
#[cold]
#[inline(never)]
pub fn fatal(message: fmt::Arguments<'_>) -> ! {
    warn(message);
    abort()
}

/// Ends the process with SIGABRT, after the report.
#[cold]
pub fn abort() -> ! {
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}

/// Reports a deadlock of a thread with itself: its signal handler called the allocator while the
/// thread held one of the allocator's locks.
#[cold]
#[inline(never)]
pub fn entered_again() -> ! {
    fatal(format_args!(
        "the allocator was entered again while it held its own lock \
         (malloc or free in a signal handler?)"
    ))
}
