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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Quarry is switched off by `QUARRY_DISABLE=1`, or was opened too late to have thread-local
    /// storage (docs/engine-authors.md), and the C library serves requests.
    Disabled,
    /// The system refuses memory.
    NoMemory,
    /// No memory for a page: the limit is reached; all cached pages are pinned, dirty or in use.
    Full,
    /// The operating system or a backing returned this error.
    System(OsError),
    /// The operating system does not open the file.
    #[cfg(feature = "std")]
    Open {
        /// The path, as the caller gave it.
        path: std::sync::Arc<std::path::Path>,
        /// The reason.
        error: OsError,
    },
    /// The backing cannot read a page.
    Read {
        /// The index of the page.
        index: u64,
        /// The reason.
        error: OsError,
    },
    /// The backing has not written dirty pages, or not kept what it has written.
    Write(OsError),
    /// No group has this number.
    NoSuchGroup {
        /// The number.
        number: usize,
    },
    /// The process has as many of these as it can have.
    TooMany {
        /// Groups, shrinkers or callbacks.
        what: &'static str,
        /// The number that it can have.
        most: usize,
    },
    /// No slab of at most 4 MiB holds such an object, or the alignment is not a power of two.
    BadLayout {
        /// The requested bytes of an object.
        size: usize,
        /// The requested alignment.
        align: usize,
    },
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
    /// A page is cached at this index already, or another task uses it, and the call does not wait.
    Busy {
        /// The index of the page.
        index: u64,
    },
    /// Another thread starts or stops the heap profile.
    Switching,
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
    pub const fn errno(&self) -> i32 {
        match self {
            Self::Disabled => libc::ENOTSUP,
            Self::NoMemory | Self::Full => libc::ENOMEM,
            Self::System(error) | Self::Read { error, .. } | Self::Write(error) => error.0,
            #[cfg(feature = "std")]
            Self::Open { error, .. } => error.0,
            Self::TooMany { .. } => libc::ENOSPC,
            Self::NoSuchGroup { .. }
            | Self::BadLayout { .. }
            | Self::NoSuchOrder { .. }
            | Self::NotAccepted { .. } => libc::EINVAL,
            Self::OutOfRange { .. } => libc::ENXIO,
            Self::Withheld { .. } => libc::EAGAIN,
            Self::Busy { .. } | Self::Switching => libc::EBUSY,
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
            Self::System(error) => {
                return write!(out, "the system or the backing refuses: {error}");
            }
            #[cfg(feature = "std")]
            Self::Open { path, error } => {
                return write!(out, "cannot open {}: {error}", path.display());
            }
            Self::Read { index, error } => return write!(out, "cannot read page {index}: {error}"),
            Self::Write(error) => return write!(out, "dirty pages are not written: {error}"),
            Self::TooMany { what, most } => {
                return write!(out, "the process has {most} {what}, the most that it can have");
            }
            Self::NoSuchGroup { number } => return write!(out, "there is no group {number}"),
            Self::BadLayout { size, align } => {
                return write!(
                    out,
                    "no cache of objects of {size} bytes at multiples of {align}: an object has \
                     1 byte to 4 MiB, and an alignment of 2^0 to 2^22"
                );
            }
            Self::Busy { index } => {
                return write!(out, "page {index} is cached already, or another task uses it");
            }
            Self::Disabled => {
                "QUARRY_DISABLE=1, or an object opened too late: the C library serves"
            }
            Self::NoMemory => "the system refuses memory",
            Self::Full => "the limit is reached, and all cached pages are in use or dirty",
            Self::Switching => "another thread starts or stops the heap profile",
            Self::Forked => "the mapping belongs to the process that forked this one",
            Self::AlreadyOn => "the heap profile is on already",
            Self::NoProfile => "no heap profile was ever started",
        };
        out.write_str(text)
    }
}

/// Without a source: the text of an error contains that of its reason.
impl core::error::Error for Error {}

impl From<OsError> for Error {
    fn from(error: OsError) -> Self {
        Self::System(error)
    }
}

#[cfg(feature = "std")]
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).cloned();
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
