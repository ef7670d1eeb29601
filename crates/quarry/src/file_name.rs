//! The name of a file for statistics or a heap profile; in it `%p` means the process id, `%%` a %.
//! Another user may have created something under that name, so only regular files are opened.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};
use core::fmt::Write;
use quarry_sys::errno::OsResult;
use quarry_sys::file_descriptor::{FileDescriptor, status};
use quarry_sys::report::Line;
use quarry_sys::system_call::process_id;

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

/// Opens a file for writing, or makes it; `None` if it is not regular.
///
/// # Errors
/// The error of the system.
pub(crate) fn open_regular(
    name: &CStr,
    flags: c_int,
    mode: c_int,
) -> OsResult<Option<FileDescriptor>> {
    let access = libc::O_WRONLY | libc::O_CREAT;
    // Without these flags, the call would block at a pipe without a reader, and follow a link.
    let wary = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let file = FileDescriptor::open(name, access | wary | flags, mode)?;
    let status = status(file.number());
    let is_regular = status.is_ok_and(|status| status.st_mode & libc::S_IFMT == libc::S_IFREG);
    Ok(is_regular.then_some(file))
}
