//! Writes a profile: the words of the counts, followed by a copy of `/proc/self/maps`.

use crate::error::Error;
use crate::instance::{is_ready, profile};
use quarry_sys::file_descriptor::{FileDescriptor, write_all};

/// Writes the current profile, or else the last one, to a file: raw, for `quarry profile FILE`.
/// About 1 MiB; may be called while the profile is on. O(size).
///
/// # Errors
/// [`Error::NoProfile`], or the system's error for the file.
#[cfg(feature = "std")]
pub fn write_to(file: impl std::os::fd::AsFd) -> Result<(), Error> {
    use std::os::fd::AsRawFd;
    write_to_descriptor(file.as_fd().as_raw_fd())
}

/// Like `write_to`, for a descriptor of C.
///
/// # Errors
/// Same as `write_to`.
pub fn write_to_descriptor(fd: i32) -> Result<(), Error> {
    let area = is_ready().then(|| profile().area()).flatten();
    let area = area.ok_or(Error::NoProfile)?;
    // SAFETY: the area is never unmapped.
    unsafe { write_all(fd, area.start().as_ptr().cast(), area.used_bytes())? };
    let maps = FileDescriptor::open(c"/proc/self/maps", libc::O_RDONLY, 0)?;
    let mut buffer = [0u8; 2048];
    loop {
        match maps.read(&mut buffer)? {
            0 => return Ok(()),
            // SAFETY: the buffer has at least the bytes that were read.
            read => unsafe { write_all(fd, buffer.as_ptr(), read)? },
        }
    }
}
