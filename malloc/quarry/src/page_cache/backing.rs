//! The trait of backings: files, devices, anything with bytes at offsets.

use crate::error::OsError;

/// The kind of access to cached pages: [`ReadOnly`] or [`ReadWrite`].
pub trait Access: sealed::Sealed + Send + Sync + 'static {
    /// True if pages are written.
    const WRITES: bool;
}

/// Pages are not written: cached bytes never change, so a pin is enough to read them.
#[derive(Clone, Copy, Debug)]
pub enum ReadOnly {}

/// Pages are written and go back to the backing: readers and writers latch them.
#[derive(Clone, Copy, Debug)]
pub enum ReadWrite {}

impl Access for ReadOnly {
    const WRITES: bool = false;
}

impl Access for ReadWrite {
    const WRITES: bool = true;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ReadOnly {}
    impl Sealed for super::ReadWrite {}
}

/// Bytes at offsets: a [`Mapping`](crate::Mapping) reads pages from here and writes them here.
///
/// ```
/// use quarry::{Backing, OsError, ReadOnly};
///
/// /// A file of a terabyte in which every page holds its own offset.
/// struct Offsets;
///
/// impl Backing for Offsets {
///     type Access = ReadOnly;
///
///     fn size(&self) -> u64 {
///         1 << 40
///     }
///
///     fn read(&self, offset: u64, page: &mut [u8]) -> Result<usize, OsError> {
///         page[..8].copy_from_slice(&offset.to_le_bytes());
///         page[8..].fill(0);
///         Ok(page.len())
///     }
/// }
///
/// let mapping = quarry::PageCache::open(Offsets)?;
/// assert_eq!(mapping.read(5)?[..8], (5u64 * 4096).to_le_bytes());
/// # Ok::<(), quarry::Error>(())
/// ```
///
/// The threads that use the mapping call these functions, several at once. The background thread
/// calls those that write, on a stack of 256 KiB. No function may use the mapping of this backing,
/// or wait for a thread that uses it. If a function panics, the call fails with `EIO`; on the
/// background thread the process ends.
pub trait Backing: Send + Sync + 'static {
    /// [`ReadWrite`] if pages may be written.
    type Access: Access;

    /// Number of bytes now. A page that begins at this offset or after it cannot be read; the page
    /// that contains the end is filled up with zeroes.
    fn size(&self) -> u64;

    /// Like [`size`](Self::size), but up to date: a backing that caches its size finds it out
    /// again. Called before a page is refused because it begins at the end or after it.
    fn size_anew(&self) -> u64 {
        self.size()
    }

    /// Reads bytes from `offset` on into the front of `bytes`; returns the number of bytes read, at
    /// least one. After a short read, it is called again for the remaining bytes.
    ///
    /// # Errors
    /// The cause; then the page is not cached, and each task that waits for it gets the error.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, OsError>;

    /// Reads neighbouring pages from `offset` on; returns the number of bytes read. Called for
    /// read-ahead with up to 32 pages, so that one system call can fill all of them; the default
    /// calls [`read`](Self::read) for each page.
    ///
    /// # Errors
    /// Same as [`read`](Self::read), if it has read nothing.
    fn read_pages(&self, offset: u64, pages: &mut [&mut [u8]]) -> Result<usize, OsError> {
        let mut done = 0;
        for page in pages {
            match self.read(offset + done as u64, page) {
                // The next bytes belong into this page, not to the front of the next one.
                Ok(read) if read < page.len() => return Ok(done + read),
                Ok(read) => done += read,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Writes neighbouring pages from `offset` on; returns the number of bytes written. After a
    /// short write, it is called again for the remaining bytes.
    ///
    /// # Errors
    /// The cause; then the pages stay dirty, and the next flush reports the error.
    fn write_pages(&self, offset: u64, pages: &[&[u8]]) -> Result<usize, OsError> {
        let _ = (offset, pages);
        Err(OsError(libc::EROFS))
    }

    /// Returns whether a page may be written now. `mark` is the sequence number, in a log, of the
    /// latest change of the page, as given to [`mark_dirty_at`](crate::PageWrite::mark_dirty_at). A
    /// backing with a write-ahead log (WAL) returns false while its device lacks the log up to
    /// `mark`. If `is_flush`, a caller waits: the backing may then write that log, and return true.
    fn may_write(&self, mark: u64, is_flush: bool) -> bool {
        let _ = (mark, is_flush);
        true
    }

    /// Waits until everything written would survive a loss of power.
    ///
    /// # Errors
    /// The cause; then writes may be lost.
    fn sync(&self) -> Result<(), OsError> {
        Ok(())
    }
}
