//! Writes a profile: the counts as they are, and a copy of `/proc/self/maps`.

use super::switch::ProfileError;
use crate::instance::{is_ready, profile};
use core::ffi::{c_int, c_void};
use quarry_sys::errno;

/// Writes the profile that is on, or the last one, to a file descriptor: raw, for
/// `quarry profile FILE`. About 1 MiB; may be called while the profile is on. O(size).
///
/// # Errors
/// [`NoProfile`](ProfileError::NoProfile), or the system's error for the file.
pub fn write_to(fd: i32) -> Result<(), ProfileError> {
    let area = is_ready().then(|| profile().area()).flatten();
    let area = area.ok_or(ProfileError::NoProfile)?;
    write_memory(fd, area.start().as_ptr().cast(), area.used_bytes())?;
    copy_maps(fd)
}

fn write_memory(fd: c_int, mut start: *const c_void, mut bytes: usize) -> Result<(), ProfileError> {
    while bytes > 0 {
        // SAFETY: this many bytes are readable there; the kernel copies them even while tasks
        // write.
        let written = unsafe { libc::write(fd, start, bytes) };
        match usize::try_from(written) {
            Ok(0) => return Err(ProfileError::System(libc::EIO)),
            Ok(written) => {
                start = start.wrapping_byte_add(written);
                bytes -= written;
            }
            Err(_) => match errno::last() {
                libc::EINTR => {}
                error => return Err(ProfileError::System(error)),
            },
        }
    }
    Ok(())
}

fn copy_maps(fd: c_int) -> Result<(), ProfileError> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated.
    let maps = unsafe { libc::open(c"/proc/self/maps".as_ptr(), flags) };
    if maps < 0 {
        return Err(ProfileError::System(errno::last()));
    }
    let mut buffer = [0u8; 2048];
    let copied = loop {
        // SAFETY: the buffer is writable for its length.
        let read = unsafe { libc::read(maps, buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(read) {
            Ok(0) => break Ok(()),
            Ok(read) => {
                if let Err(error) = write_memory(fd, buffer.as_ptr().cast(), read) {
                    break Err(error);
                }
            }
            Err(_) if errno::last() == libc::EINTR => {}
            Err(_) => break Err(ProfileError::System(errno::last())),
        }
    };
    // SAFETY: we opened it, and no other code knows it.
    unsafe { libc::close(maps) };
    copied
}
