//! Open files by descriptor: reads and writes, also positioned ones of several pieces; size, sync.
//!
//! The module repeats interrupted calls, and continues short ones.

use crate::errno::{OsError, OsResult};
use crate::system_call::{checked, filled, repeated};
use core::ffi::{CStr, c_int, c_long};

/// Maximum number of pieces in a system call; the kernel takes 1,024 (`UIO_MAXIOV`, Linux 2.2).
const PIECES: usize = 64;

/// The outcome of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes moved, beginning with the first piece.
    pub bytes: usize,
    /// The error that ended the transfer. `None` after all bytes, or a read to the end of the file.
    pub error: Option<OsError>,
}

impl Transfer {
    /// Returns the number of bytes moved.
    ///
    /// # Errors
    /// The error that ended the transfer.
    pub fn complete(self) -> OsResult<usize> {
        self.error.map_or(Ok(self.bytes), Err)
    }
}

/// An open file. Dropping it closes the descriptor if this value owns it.
#[derive(Debug)]
pub struct FileDescriptor {
    number: i32,
    is_owned: bool,
}

impl FileDescriptor {
    /// Takes ownership of a descriptor; dropping the value closes it.
    ///
    /// # Safety
    /// The descriptor is open, and no other code closes it.
    #[must_use]
    pub const unsafe fn owned(number: i32) -> Self {
        Self { number, is_owned: true }
    }

    /// Borrows a descriptor that other code closes.
    ///
    /// # Safety
    /// The descriptor stays open as long as the value exists.
    #[must_use]
    pub const unsafe fn borrowed(number: i32) -> Self {
        Self { number, is_owned: false }
    }

    /// Opens a file, which programs that this one executes do not inherit.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn open(path: &CStr, flags: c_int, mode: c_int) -> OsResult<Self> {
        let (at, path, flags) = (libc::AT_FDCWD, path.as_ptr(), flags | libc::O_CLOEXEC);
        // SAFETY: the path is NUL-terminated and outlives the call.
        opened(unsafe { libc::syscall(libc::SYS_openat, at, path, flags, mode) })
    }

    /// The number of the descriptor.
    #[must_use]
    pub const fn number(&self) -> i32 {
        self.number
    }

    /// Gives up the ownership of the descriptor, which stays open; returns its number.
    #[must_use]
    pub const fn leave_open(self) -> i32 {
        let number = self.number;
        core::mem::forget(self);
        number
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn size(&self) -> OsResult<u64> {
        Ok(u64::try_from(status(self.number)?.st_size).unwrap_or(0))
    }

    /// Sets the length of the file.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn set_size(&self, bytes: u64) -> OsResult<()> {
        // SAFETY: takes numbers only.
        repeated(|| unsafe { libc::syscall(libc::SYS_ftruncate, self.number, bytes) }).map(drop)
    }

    /// Waits until all written data, and the metadata to find it, is on the device.
    ///
    /// # Errors
    /// The error of the system call; the kernel reports a failed write only once.
    pub fn sync(&self) -> OsResult<()> {
        // SAFETY: takes a number only.
        repeated(|| unsafe { libc::syscall(libc::SYS_fdatasync, self.number) }).map(drop)
    }

    /// Reads from the position of the file; returns 0 at its end.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn read(&self, buffer: &mut [u8]) -> OsResult<usize> {
        let (start, bytes) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: the kernel writes at most `bytes` bytes.
        repeated(|| unsafe { libc::syscall(libc::SYS_read, self.number, start, bytes) })
    }

    /// Fills pieces, one after the other, with the bytes from `offset` on. Stops early only at the
    /// end of the file or at an error.
    pub fn read_at(&self, pieces: &mut [&mut [u8]], offset: u64) -> Transfer {
        self.transfer(libc::SYS_preadv, offset, |done| {
            Vectors::after(done, pieces.iter_mut().map(|piece| (piece.as_mut_ptr(), piece.len())))
        })
    }

    /// Writes pieces, one after the other, from `offset` on.
    pub fn write_at(&self, pieces: &[&[u8]], offset: u64) -> Transfer {
        let moved = self.transfer(libc::SYS_pwritev, offset, |done| {
            let pieces = pieces.iter().map(|piece| (piece.as_ptr().cast_mut(), piece.len()));
            Vectors::after(done, pieces)
        });
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        // EIO if the file takes no bytes and reports no error: callers would try again for ever.
        let error = moved.error.or((moved.bytes < all).then_some(OsError(libc::EIO)));
        Transfer { error, ..moved }
    }

    /// Calls `preadv` or `pwritev` until all bytes are moved, or a call moves no bytes or fails.
    /// `rest` returns vectors of the bytes after those that are moved already.
    fn transfer(
        &self,
        call: c_long,
        offset: u64,
        mut rest: impl FnMut(usize) -> Vectors,
    ) -> Transfer {
        let mut bytes = 0;
        loop {
            let vectors = rest(bytes);
            if vectors.count == 0 {
                return Transfer { bytes, error: None };
            }
            let (first, count) = (vectors.all.as_ptr(), vectors.count);
            // The system call takes the offset as two halves; a 64-bit kernel uses only the first.
            let at = offset + bytes as u64;
            // SAFETY: each vector is a piece that the caller lends for the call, exclusively where
            // the kernel writes into it.
            let moved =
                repeated(|| unsafe { libc::syscall(call, self.number, first, count, at, 0) });
            match moved {
                Ok(0) => return Transfer { bytes, error: None },
                Ok(moved) => bytes += moved,
                Err(error) => return Transfer { bytes, error: Some(error) },
            }
        }
    }
}

impl Drop for FileDescriptor {
    fn drop(&mut self) {
        if self.is_owned {
            // SAFETY: the descriptor is ours and not used any more.
            unsafe { libc::syscall(libc::SYS_close, self.number) };
        }
    }
}

struct Vectors {
    all: [libc::iovec; PIECES],
    count: usize,
}

impl Vectors {
    /// Vectors of the bytes of `pieces` after the first `done`, as many pieces as fit.
    fn after(done: usize, pieces: impl Iterator<Item = (*mut u8, usize)>) -> Self {
        let none = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
        let (mut vectors, mut skipped) = (Self { all: [none; PIECES], count: 0 }, done);
        for (start, len) in pieces {
            let skip = skipped.min(len);
            skipped -= skip;
            if skip < len {
                let base = start.wrapping_add(skip).cast();
                vectors.all[vectors.count] = libc::iovec { iov_base: base, iov_len: len - skip };
                vectors.count += 1;
            }
            if vectors.count == PIECES {
                break;
            }
        }
        vectors
    }
}

/// Returns the descriptor that a system call has opened, or the call's error.
pub(crate) fn opened(result: c_long) -> OsResult<FileDescriptor> {
    // SAFETY: only the caller knows the new descriptor.
    checked(result).map(|number| unsafe { FileDescriptor::owned(number as i32) })
}

/// Opens the file of a descriptor a second time, with the lowest free number from `least` on.
/// Programs that this one executes do not inherit it.
///
/// # Errors
/// The error of the system call.
pub fn duplicate(number: i32, least: i32) -> OsResult<FileDescriptor> {
    let command = libc::F_DUPFD_CLOEXEC;
    // SAFETY: takes numbers only.
    opened(unsafe { libc::syscall(libc::SYS_fcntl, number, command, least) })
}

/// The status of an open file.
///
/// # Errors
/// The error of the system call.
pub fn status(number: i32) -> OsResult<libc::stat> {
    // SAFETY: where the kernel succeeds, it has filled the structure.
    unsafe { filled(|status: *mut libc::stat| libc::syscall(libc::SYS_fstat, number, status)) }
}

/// Writes to a descriptor, at the position of its file.
///
/// # Errors
/// The error of the system call that moved no bytes.
///
/// # Safety
/// The `bytes` from `start` on are readable. Other threads may write them during the call.
pub unsafe fn write_all(number: i32, mut start: *const u8, mut bytes: usize) -> OsResult<()> {
    while bytes > 0 {
        // SAFETY: the caller's promise; the kernel copies the bytes.
        match repeated(|| unsafe { libc::syscall(libc::SYS_write, number, start, bytes) })? {
            0 => return Err(OsError(libc::EIO)),
            written => {
                start = start.wrapping_add(written);
                bytes -= written;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::os::fd::{AsRawFd, IntoRawFd};
    use std::path::{Path, PathBuf};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("quarry-fd-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn open(&self) -> FileDescriptor {
            opened(&self.0, OpenOptions::new().read(true).write(true).create(true))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn opened(path: impl AsRef<Path>, options: &OpenOptions) -> FileDescriptor {
        let number = options.open(path).unwrap().into_raw_fd();
        // SAFETY: the file has given its descriptor up.
        unsafe { FileDescriptor::owned(number) }
    }

    #[test]
    fn more_pieces_than_a_call_takes_are_written_and_read() {
        let scratch = Scratch::new("pieces");
        let file = scratch.open();
        let bytes: Vec<u8> = (0..5 * PIECES * 7).map(|number| (number % 251) as u8).collect();
        let pieces: Vec<&[u8]> = bytes.chunks(7).collect();
        assert_eq!(file.write_at(&pieces, 100).complete(), Ok(bytes.len()));
        assert_eq!(file.size(), Ok(100 + bytes.len() as u64));
        let mut read = vec![0; bytes.len() + 30];
        let mut pieces: Vec<&mut [u8]> = read.chunks_mut(5).collect();
        let transfer = file.read_at(&mut pieces, 100);
        assert_eq!(transfer, Transfer { bytes: bytes.len(), error: None }, "the file ends there");
        assert_eq!(read[..bytes.len()], bytes);
        assert!(read[bytes.len()..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn empty_pieces_are_passed_over() {
        let scratch = Scratch::new("empty");
        let file = scratch.open();
        assert_eq!(file.write_at(&[b"", b"abc", b"", b"d"], 0).complete(), Ok(4));
        assert_eq!(file.write_at(&[], 9).complete(), Ok(0));
        let (mut front, mut back) = ([0; 1], [0; 3]);
        let transfer = file.read_at(&mut [&mut [], &mut front, &mut [], &mut back], 0);
        assert_eq!((transfer.bytes, &front, &back), (4, b"a", b"bcd"));
    }

    #[test]
    fn a_refusal_says_how_far_it_came() {
        let scratch = Scratch::new("refused");
        let file = scratch.open();
        let unreadable = opened("/", OpenOptions::new().read(true));
        let mut byte = [0];
        let refused = unreadable.read_at(&mut [&mut byte], 0);
        assert_eq!(refused, Transfer { bytes: 0, error: Some(OsError(libc::EISDIR)) });
        let reader = opened(&scratch.0, OpenOptions::new().read(true));
        assert_eq!(reader.write_at(&[b"x"], 0).complete(), Err(OsError(libc::EBADF)));
        assert_eq!(file.size(), Ok(0));
        assert_eq!(reader.set_size(5), Err(OsError(libc::EINVAL)));
        let full = opened("/dev/full", OpenOptions::new().write(true));
        assert_eq!(full.write_at(&[b"x"], 0).complete(), Err(OsError(libc::ENOSPC)));
    }

    #[test]
    fn sizes_change_and_descriptors_are_closed_once() {
        let scratch = Scratch::new("size");
        let file = scratch.open();
        assert_eq!(file.set_size(12_345), Ok(()));
        assert_eq!((file.size(), file.sync()), (Ok(12_345), Ok(())));
        let std_file = std::fs::File::open(&scratch.0).unwrap();
        // SAFETY: `std_file` closes the descriptor, after `borrowed` is dropped.
        let borrowed = unsafe { FileDescriptor::borrowed(std_file.as_raw_fd()) };
        drop(borrowed);
        assert_eq!(std_file.metadata().unwrap().len(), 12_345, "it is open still");
        let number = file.number();
        // SAFETY: no other code uses the duplicate.
        let owned = unsafe { FileDescriptor::owned(libc::dup(number)) };
        let copy = owned.number();
        drop(owned);
        // SAFETY: takes numbers only.
        assert_eq!(unsafe { libc::fcntl(copy, libc::F_GETFD) }, -1, "it is closed");
    }
}
