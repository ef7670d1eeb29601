//! Reports an error after which Quarry cannot go on: one line on standard error, then `abort`.
//!
//! The text is formatted on a stack of Quarry's own and written without a buffer, because
//! the caller may be anywhere inside the allocator.

use crate::file_descriptor::{status, write_all};
use crate::own_stack;
use crate::primitive::{AtomicUsize, Ordering};
use core::fmt::{self, Write};
pub use quarry_record::is_plain;

/// The reader at the other end of standard error that names callers: the inode of its pipe, and
/// the secret number by which it knows lines of Quarry. 0 without one.
static READER: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

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

    /// Appends bytes, as many as fit.
    pub fn push(&mut self, bytes: &[u8]) {
        self.len += put(self.bytes.get_mut(self.len..).unwrap_or_default(), bytes);
    }
}

impl<const N: usize> Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }

    fn write_char(&mut self, letter: char) -> fmt::Result {
        self.len += put_letter(self.bytes.get_mut(self.len..).unwrap_or_default(), letter);
        Ok(())
    }
}

/// Copies as many bytes as there is room for; returns how many. This function and the next one are
/// not inlined: lines of each length would have them once more.
#[inline(never)]
fn put(room: &mut [u8], bytes: &[u8]) -> usize {
    let take = bytes.len().min(room.len());
    room[..take].copy_from_slice(&bytes[..take]);
    take
}

#[inline(never)]
fn put_letter(room: &mut [u8], letter: char) -> usize {
    put(room, letter.encode_utf8(&mut [0; 4]).as_bytes())
}

/// Writes text that a terminal only prints: names and settings in a message may be a stranger's.
struct Plain<'a, const N: usize>(&'a mut Line<N>);

impl<const N: usize> Write for Plain<'_, N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| self.write_char(letter))
    }

    fn write_char(&mut self, letter: char) -> fmt::Result {
        self.0.write_char(if is_plain(letter) { letter } else { '?' })
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

/// Writes `quarry: <message>` to standard error, with `?` for what a terminal would obey. Ignores
/// failures, such as a closed descriptor.
pub fn warn(message: fmt::Arguments<'_>) {
    warn_to(libc::STDERR_FILENO, message);
}

/// [`warn`] to another descriptor.
#[cold]
pub fn warn_to(descriptor: i32, message: fmt::Arguments<'_>) {
    own_stack::run(|| write_line(descriptor, Line::default(), message));
}

/// Notes the reader whose pipe and secret number `INODE-NUMBER` names, both hexadecimal.
pub fn expect_reader(text: &str) {
    let number = |digits| usize::from_str_radix(digits, 16).unwrap_or(0);
    let (inode, secret) = text.split_once('-').unwrap_or_default();
    READER[0].store(number(inode), Ordering::Relaxed);
    READER[1].store(number(secret), Ordering::Relaxed);
}

/// [`warn`] with a line that the reader answers: if standard error still is its pipe, the mark
/// comes first, which it removes. It answers no other lines, because anyone can write those.
#[cold]
pub fn warn_reader(message: fmt::Arguments<'_>) {
    own_stack::run(|| {
        let [inode, secret] = [0, 1].map(|at: usize| READER[at].load(Ordering::Relaxed));
        let mut line = Line::default();
        let is_its_pipe = |it: libc::stat| {
            it.st_mode & libc::S_IFMT == libc::S_IFIFO && it.st_ino as usize == inode
        };
        if inode != 0 && status(libc::STDERR_FILENO).is_ok_and(is_its_pipe) {
            let _ = write!(line, "\x1e{secret:016x}");
        }
        write_line(libc::STDERR_FILENO, line, message);
    });
}

fn write_line(descriptor: i32, mut line: Line<512>, message: fmt::Arguments<'_>) {
    let _ = line.write_str("quarry: ");
    let _ = Plain(&mut line).write_fmt(message);
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
