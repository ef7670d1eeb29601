//! What lies behind the pages of a mapping: a file, a device, a part of either, or anything else
//! that has bytes at offsets.

use core::fmt;
pub use quarry_sys::errno::OsError;

/// Who may change the bytes of cached pages: [`ReadOnly`] or [`ReadWrite`].
pub trait Access: sealed::Sealed + Send + Sync + 'static {
    /// True where pages are written.
    const WRITES: bool;
}

/// Nobody writes pages: what is cached never changes, so a pin is enough to read its bytes.
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

/// Bytes at offsets, which a [`Mapping`](crate::Mapping) reads pages from and writes them to.
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
/// # Ok::<(), quarry::PageError>(())
/// ```
///
/// Any thread that uses the mapping calls these functions, several at once, and the background
/// thread calls those that write, on a stack of 256 KiB. None of them may use the mapping that it
/// belongs to, or wait for a thread that does. A function that unwinds has failed with `EIO`; on
/// the background thread, where nobody could catch that, it ends the process.
pub trait Backing: Send + Sync + 'static {
    /// Whether pages may be written.
    type Access: Access;

    /// Bytes that there are now. A page that begins at this offset or behind it cannot be read; the
    /// page that the end lies in is filled up with zeroes.
    fn size(&self) -> u64;

    /// The same, asked anew where [`size`](Self::size) may be older than the backing: called before
    /// a page is refused because it begins behind the end.
    fn size_anew(&self) -> u64 {
        self.size()
    }

    /// Reads bytes from `offset` on into the front of `bytes`; returns how many, at least one.
    /// Where it reads fewer than asked, it is called again for the rest.
    ///
    /// # Errors
    /// Why it cannot; the page is not cached then, and everyone who waits for it gets the error.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, OsError>;

    /// Reads neighbouring pages from `offset` on; returns the bytes read, from the first page on.
    /// Called for read-ahead with up to 32 pages, so that one call to the system can serve them
    /// all; unless said otherwise, it calls [`read`](Self::read) for each.
    ///
    /// # Errors
    /// As there, where it has read nothing.
    fn read_pages(&self, offset: u64, pages: &mut [&mut [u8]]) -> Result<usize, OsError> {
        let mut done = 0;
        for page in pages {
            match self.read(offset + done as u64, page) {
                Ok(read) => done += read,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            if done % page.len() != 0 {
                break;
            }
        }
        Ok(done)
    }

    /// Writes neighbouring pages from `offset` on; returns the bytes written, from the first page
    /// on. Where it writes fewer than asked, it is called again for the rest.
    ///
    /// # Errors
    /// Why it cannot; the pages stay dirty, and the next flush reports it.
    fn write_pages(&self, offset: u64, pages: &[&[u8]]) -> Result<usize, OsError> {
        let _ = (offset, pages);
        Err(OsError(libc::EROFS))
    }

    /// Asks whether a page may be written whose latest change has this mark: the sequence number of
    /// a log, given to [`mark_dirty_at`](crate::PageWrite::mark_dirty_at). A backing with a log
    /// written ahead (WAL) says no while the log is not on its device up to there; or it brings it
    /// there, if `is_flush` says that a caller waits for the page.
    fn may_write(&self, mark: u64, is_flush: bool) -> bool {
        let _ = (mark, is_flush);
        true
    }

    /// Waits until everything written is where it survives a loss of power.
    ///
    /// # Errors
    /// Why it may not be there.
    fn sync(&self) -> Result<(), OsError> {
        Ok(())
    }
}

/// Why a page cannot be had, or not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageError {
    /// There is no memory for a page: the limit is reached, and every cached page is pinned, dirty
    /// or otherwise in use.
    Full,
    /// The backing refused.
    Io(OsError),
    /// The page begins behind the end of the backing, or no mapping has pages with such indexes.
    OutOfRange {
        /// The page.
        index: u64,
        /// Bytes of the backing; `u64::MAX` where there is none.
        size: u64,
    },
    /// [`Backing::may_write`] said no for so many pages, which stay dirty.
    Withheld {
        /// How many.
        pages: usize,
    },
    /// The page is in use by somebody else, where the call does not wait.
    Busy,
    /// The mapping was made before a `fork`, and belongs to the parent process.
    Forked,
    /// No pages of this size: they have `4 KiB << order`, with an order of 0 to 4.
    NoSuchOrder {
        /// The order that was asked for.
        order: u8,
    },
    /// `QUARRY_DISABLE=1`: the C library serves, and there is no page cache.
    Disabled,
}

impl fmt::Display for PageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => out.write_str(
                "no memory for a page: the limit is reached, and all cached pages are in use or \
                 dirty",
            ),
            Self::Io(error) => write!(out, "the backing refused: {error}"),
            Self::OutOfRange { index, size } => {
                write!(out, "page {index} begins behind the end of the backing at {size} bytes")
            }
            Self::Withheld { pages } => {
                write!(out, "the backing does not allow {pages} dirty pages to be written yet")
            }
            Self::Busy => out.write_str("the page is in use by somebody else"),
            Self::Forked => {
                out.write_str("the mapping belongs to the process that forked this one")
            }
            Self::NoSuchOrder { order } => {
                write!(out, "no pages of 4 KiB << {order}: the order is 0 to 4")
            }
            Self::Disabled => out.write_str("QUARRY_DISABLE=1: there is no page cache"),
        }
    }
}

impl core::error::Error for PageError {}

impl From<OsError> for PageError {
    fn from(error: OsError) -> Self {
        Self::Io(error)
    }
}
