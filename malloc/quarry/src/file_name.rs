//! The name of a file for statistics or a heap profile; in it `%p` means the process id, `%%` a %.
//! Another user may have created something under that name, so only regular files are opened.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};
use core::fmt::Write;
use quarry_sys::file_descriptor::{FileDescriptor, status};
use quarry_sys::report::Line;
use quarry_sys::system_call::{checked, filled, process_id};

/// Bytes of the longest file name with its NUL (`PATH_MAX` of Linux).
pub(crate) const FILE_NAME_BYTES: usize = libc::PATH_MAX as usize;

/// A copy of the name, because daemons that change their title overwrite the environment.
pub(crate) struct FileName(UnsafeCell<[u8; FILE_NAME_BYTES]>);

// SAFETY: only `set` writes it, before any thread reads (its caller's promise).
unsafe impl Sync for FileName {}

pub(crate) struct Expanded(Line<FILE_NAME_BYTES>);

impl Expanded {
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(self.0.as_bytes()).unwrap_or(c"")
    }
}

/// The reason why a text is not a file name; prints as the end of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadName {
    /// With the process id, the name may be longer than the system allows.
    TooLong,
    /// A letter other than `p` or `%` follows a `%`.
    UnknownLetter,
}

impl core::fmt::Display for BadName {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooLong => write!(out, "a file name has fewer than {FILE_NAME_BYTES} bytes"),
            Self::UnknownLetter => {
                out.write_str("after % comes p for the number of the process, or another %")
            }
        }
    }
}

fn each_piece(name: &str, mut each: impl FnMut(Option<&str>)) -> Result<(), BadName> {
    let mut rest = name;
    while let Some((text, behind)) = rest.split_once('%') {
        each(Some(text));
        each(match behind.as_bytes().first() {
            Some(b'p') => None,
            Some(b'%') => Some("%"),
            _ => return Err(BadName::UnknownLetter),
        });
        rest = behind.get(1..).unwrap_or_default();
    }
    each(Some(rest));
    Ok(())
}

/// Bytes reserved for the process id, at least as many as it can have digits.
const NUMBER_BYTES: usize = 10;

impl FileName {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new([0; FILE_NAME_BYTES]))
    }

    /// # Errors
    /// If the text is not a file name.
    ///
    /// # Safety
    /// No other code sets the name, and no code reads it before this has returned.
    pub(crate) unsafe fn set(&self, name: &str) -> Result<(), BadName> {
        let mut bytes = 0;
        each_piece(name, |piece| bytes += piece.map_or(NUMBER_BYTES, str::len))?;
        if bytes.max(name.len()) >= FILE_NAME_BYTES {
            return Err(BadName::TooLong);
        }
        // SAFETY: no other code is here (the caller's promise); the name and a NUL fit.
        unsafe {
            let place = self.0.get().cast::<u8>();
            core::ptr::copy_nonoverlapping(name.as_ptr(), place, name.len());
            place.add(name.len()).write(0);
        }
        Ok(())
    }

    /// The name as it was given, with `%p`.
    ///
    /// # Safety
    /// The name has been set.
    pub(crate) unsafe fn given(&self) -> &str {
        // SAFETY: the name was set (caller's promise), ends with a NUL, and never changes again.
        let name = unsafe { CStr::from_ptr(self.0.get().cast()) };
        name.to_str().unwrap_or("?")
    }

    /// # Safety
    /// Same as [`given`](Self::given).
    pub(crate) unsafe fn expanded(&self) -> Expanded {
        let mut line = Line::default();
        // SAFETY: the caller's promise is passed on.
        let (name, process) = (unsafe { self.given() }, process_id());
        // `set` has checked the name.
        let _ = each_piece(name, |piece| {
            let _ = match piece {
                Some(text) => line.write_str(text),
                None => write!(line, "{process}"),
            };
        });
        let _ = line.write_char('\0');
        Expanded(line)
    }
}

/// Opens a file for writing, or makes it.
///
/// # Errors
/// The file is not regular, or the system refuses.
#[inline(never)]
pub(crate) fn open_regular(
    name: &CStr,
    flags: c_int,
    mode: c_int,
) -> Result<FileDescriptor, Refusal> {
    let access = libc::O_WRONLY | libc::O_CREAT;
    // Without these flags, the call would block at a pipe without a reader, and follow a link.
    let wary = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let file =
        FileDescriptor::open(name, access | wary | flags, mode).map_err(|it| match it.0 {
            libc::ELOOP | libc::ENXIO | libc::EISDIR => Refusal::NotRegular,
            error => Refusal::CannotOpen(error),
        })?;
    let status = status(file.number());
    let is_regular = status.is_ok_and(|status| status.st_mode & libc::S_IFMT == libc::S_IFREG);
    if is_regular { Ok(file) } else { Err(Refusal::NotRegular) }
}

/// Checks that a file can be written, as far as that shows without making or opening it.
pub(crate) fn look_at(name: &CStr) -> Result<(), Refusal> {
    let (call, at, path) = (libc::SYS_newfstatat, libc::AT_FDCWD, name.as_ptr());
    // SAFETY: the name is NUL-terminated; where the kernel succeeds, it has filled the structure.
    let status = unsafe {
        filled(|status| libc::syscall(call, at, path, status, libc::AT_SYMLINK_NOFOLLOW))
    };
    match status.map(|status: libc::stat| status.st_mode & libc::S_IFMT) {
        Ok(libc::S_IFREG) => is_allowed(name, libc::W_OK),
        Ok(_) => Err(Refusal::NotRegular),
        Err(_) => is_allowed(folder_of(name, &mut [0; FILE_NAME_BYTES]), libc::W_OK | libc::X_OK),
    }
}

#[inline(never)]
fn is_allowed(name: &CStr, access: c_int) -> Result<(), Refusal> {
    let (call, at, path) = (libc::SYS_faccessat, libc::AT_FDCWD, name.as_ptr());
    // SAFETY: the name is NUL-terminated.
    let answer = checked(unsafe { libc::syscall(call, at, path, access) });
    answer.map(drop).map_err(|error| Refusal::CannotOpen(error.0))
}

fn folder_of<'a>(name: &CStr, buffer: &'a mut [u8; FILE_NAME_BYTES]) -> &'a CStr {
    let bytes = name.to_bytes();
    let folder = match bytes.iter().rposition(|byte| *byte == b'/') {
        None => b".",
        Some(0) => b"/",
        Some(slash) => &bytes[..slash],
    };
    buffer[..folder.len()].copy_from_slice(folder);
    buffer[folder.len()] = 0;
    CStr::from_bytes_until_nul(buffer).unwrap_or(c".")
}

/// The reason why nothing is written to a file; prints as the end of a sentence.
pub(crate) enum Refusal {
    NotRegular,
    CannotOpen(c_int),
    CannotWrite(c_int),
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotRegular => out.write_str("is not a regular file"),
            Self::CannotOpen(error) => write!(out, "cannot be opened ({})", Reason(*error)),
            Self::CannotWrite(error) => write!(out, "cannot be written ({})", Reason(*error)),
        }
    }
}

/// An `errno` in words; `strerror` may allocate.
pub(crate) struct Reason(pub(crate) c_int);

impl core::fmt::Display for Reason {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.write_str(match self.0 {
            libc::ENOENT => "no such folder",
            libc::ENOTDIR => "in something that is not a folder",
            libc::EACCES | libc::EPERM => "permission denied",
            libc::EROFS => "read-only file system",
            libc::ENOSPC => "no space left",
            libc::EDQUOT => "quota exceeded",
            libc::EFBIG => "file size limit",
            libc::ENAMETOOLONG => "name too long",
            libc::EMFILE | libc::ENFILE => "too many open files",
            libc::ENOMEM => "no memory",
            error => return write!(out, "errno {error}"),
        })
    }
}
