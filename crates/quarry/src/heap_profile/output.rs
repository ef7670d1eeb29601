//! Writes a profile: the words of the counts, followed by a copy of `/proc/self/maps`.

use crate::error::{Error, OsError};
use crate::instance::{is_ready, profile};
use core::ffi::{c_int, c_void};
use quarry_sys::file_descriptor::FileDescriptor;

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
    write_memory(fd, area.start().as_ptr().cast(), area.used_bytes())?;
    copy_maps(fd)
}

fn write_memory(fd: c_int, mut start: *const c_void, mut bytes: usize) -> Result<(), Error> {
    while bytes > 0 {
        // SAFETY: these bytes are readable; the kernel copies them even while tasks write.
        let written = unsafe { libc::write(fd, start, bytes) };
        match usize::try_from(written) {
            Ok(0) => return Err(OsError(libc::EIO).into()),
            Ok(written) => {
                start = start.wrapping_byte_add(written);
                bytes -= written;
            }
            Err(_) => match OsError::last() {
                OsError(libc::EINTR) => {}
                error => return Err(error.into()),
            },
        }
    }
    Ok(())
}

fn copy_maps(fd: c_int) -> Result<(), Error> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated.
    let maps = unsafe { libc::open(c"/proc/self/maps".as_ptr(), flags) };
    if maps < 0 {
        return Err(OsError::last().into());
    }
    // SAFETY: we opened it, and no other code knows it.
    let maps = unsafe { FileDescriptor::owned(maps) };
    let mut buffer = [0u8; 2048];
    loop {
        let start = buffer.as_mut_ptr().cast();
        // SAFETY: the buffer is writable for its length.
        let read = unsafe { libc::read(maps.number(), start, buffer.len()) };
        match usize::try_from(read) {
            Ok(0) => return Ok(()),
            Ok(read) => write_memory(fd, buffer.as_ptr().cast(), read)?,
            Err(_) if OsError::last() == OsError(libc::EINTR) => {}
            Err(_) => return Err(OsError::last().into()),
        }
    }
}
