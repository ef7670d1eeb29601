//! The reasons why calls of this crate fail.

use core::fmt;
pub use quarry_sys::errno::OsError;

/// The reason why a call failed.
///
/// ```
/// use quarry::{Error, FileBacking, PageCache};
/// use std::io;
///
/// fn first_byte(path: &str) -> io::Result<u8> {
///     let mapping = PageCache::open(FileBacking::open(path)?)?;
///     Ok(mapping.read(0)?[0])
/// }
///
/// let empty = first_byte("/dev/null").unwrap_err();
/// assert_eq!(empty.kind(), io::ErrorKind::UnexpectedEof);
/// let reason = empty.get_ref().and_then(|error| error.downcast_ref());
/// assert_eq!(reason, Some(&Error::OutOfRange { index: 0, size: 0 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Quarry is switched off by `QUARRY_DISABLE=1`, and the C library serves requests.
    Disabled,
    /// The system refuses memory.
    NoMemory,
    /// No memory for a page: the limit is reached; all cached pages are pinned, dirty or in use.
    Full,
    /// The operating system or a backing returned this error.
    System(OsError),
    /// The process has as many groups, shrinkers or callbacks as it can have.
    TooMany,
    /// No slab of at most 4 MiB holds such an object, or the alignment is not a power of two.
    BadLayout,
    /// Pages cannot have this size: they have `4 KiB << order`, with an order of 0 to 4.
    NoSuchOrder {
        /// The requested order.
        order: u8,
    },
    /// A value is not accepted, and nothing has changed.
    NotAccepted {
        /// The name of the value.
        name: &'static str,
        /// The refused value.
        value: usize,
        /// The largest value that is accepted.
        most: usize,
        /// The smallest value that is accepted.
        least: usize,
    },
    /// The backing has no byte of the page, or no mapping can have a page with this index.
    OutOfRange {
        /// The index of the page.
        index: u64,
        /// Size of the backing in bytes; `u64::MAX` for a mapping without a backing.
        size: u64,
    },
    /// The backing's `may_write` returned false for this many pages, which stay dirty.
    Withheld {
        /// Number of pages.
        pages: usize,
    },
    /// Another task uses the page or the heap profile, and the call does not wait.
    Busy,
    /// The mapping was made before a `fork`, and belongs to the parent process.
    Forked,
    /// The heap profile is on already.
    AlreadyOn,
    /// There never was a heap profile.
    NoProfile,
}

/// # Errors
/// [`Error::NotAccepted`] if the value is not one of those that are accepted.
pub(crate) fn accept(
    name: &'static str,
    value: usize,
    accepted: core::ops::RangeInclusive<usize>,
) -> Result<(), Error> {
    let (least, most) = accepted.into_inner();
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::NotAccepted { name, value, least, most })
}

impl Error {
    /// The `errno` of the same error in C, as `quarry.h` documents it.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::Disabled => libc::ENOTSUP,
            Self::NoMemory | Self::Full => libc::ENOMEM,
            Self::System(OsError(errno)) => errno,
            Self::TooMany => libc::ENOSPC,
            Self::BadLayout | Self::NoSuchOrder { .. } | Self::NotAccepted { .. } => libc::EINVAL,
            Self::OutOfRange { .. } => libc::ENXIO,
            Self::Withheld { .. } => libc::EAGAIN,
            Self::Busy => libc::EBUSY,
            Self::Forked => libc::ESTALE,
            Self::AlreadyOn => libc::EALREADY,
            Self::NoProfile => libc::ENODATA,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NoSuchOrder { order } => {
                return write!(out, "no pages of 4 KiB << {order}: the order is 0 to 4");
            }
            Self::NotAccepted { name, value, most, least } => {
                return write!(out, "{name} is {least} to {most}, and not {value}");
            }
            Self::OutOfRange { index, size } => {
                return write!(out, "page {index} begins after the end of the backing, at {size}");
            }
            Self::Withheld { pages } => {
                return write!(out, "the backing does not allow {pages} dirty pages to be written");
            }
            Self::System(_) => "the system or the backing refuses",
            Self::Disabled => "QUARRY_DISABLE=1: the C library serves",
            Self::NoMemory => "the system refuses memory",
            Self::Full => "the limit is reached, and all cached pages are in use or dirty",
            Self::TooMany => "the process has as many of these as it can have",
            Self::BadLayout => "an object has 1 byte to 4 MiB, and an alignment of 2^0 to 2^22",
            Self::Busy => "another task uses it",
            Self::Forked => "the mapping belongs to the process that forked this one",
            Self::AlreadyOn => "the heap profile is on already",
            Self::NoProfile => "no heap profile was ever started",
        };
        out.write_str(text)
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<OsError> for Error {
    fn from(error: OsError) -> Self {
        Self::System(error)
    }
}

#[cfg(feature = "std")]
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let own = error.get_ref().and_then(|inner| inner.downcast_ref()).copied();
        own.unwrap_or_else(|| Self::System(error.into()))
    }
}

/// Makes errors about short memory without allocating.
#[cfg(feature = "std")]
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        let plain = Self::from_raw_os_error(error.errno());
        let kind = match error {
            Error::System(_) | Error::NoMemory | Error::Full => return plain,
            Error::OutOfRange { .. } => std::io::ErrorKind::UnexpectedEof,
            Error::Forked => std::io::ErrorKind::Unsupported,
            Error::AlreadyOn => std::io::ErrorKind::AlreadyExists,
            Error::NoProfile => std::io::ErrorKind::NotFound,
            _ => plain.kind(),
        };
        Self::new(kind, error)
    }
}
