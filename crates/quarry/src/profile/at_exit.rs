//! A profile of the whole life of a process: `QUARRY_PROFILE`.
//!
//! Memory that is in use when the process ends has leaked, or was left to the system on purpose.

use super::DEFAULT_MEAN_BYTES;
use super::output::write_to;
use super::switch::{ProfileError, is_of_this_process, start, stop};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};
use core::fmt::Write;
use quarry_sys::errno;
use quarry_sys::primitive::{AtomicBool, AtomicUsize, Ordering};
use quarry_sys::report::{Line, warn};

/// Bytes of the longest file name with its NUL (`PATH_MAX` of Linux).
const FILE_NAME_BYTES: usize = libc::PATH_MAX as usize;

/// A copy of the name as it was given: daemons that change their title write over the environment.
struct FileName(UnsafeCell<[u8; FILE_NAME_BYTES]>);

// SAFETY: only `prepare` writes it, once, before it sets `LENGTH`.
unsafe impl Sync for FileName {}

static NAME: FileName = FileName(UnsafeCell::new([0; FILE_NAME_BYTES]));
/// Bytes of the name; 0 if no profile is wanted.
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static MEAN: AtomicUsize = AtomicUsize::new(DEFAULT_MEAN_BYTES);
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Takes the values of `QUARRY_PROFILE` and `QUARRY_PROFILE_MEAN`, while the settings are read.
pub(crate) fn prepare(name: &str, value: &str) {
    if name == "PROFILE_MEAN" {
        let mean = quarry_core::heap::options::parse_bytes(value).filter(|mean| *mean > 0);
        return MEAN.store(mean.unwrap_or(DEFAULT_MEAN_BYTES), Ordering::Relaxed);
    }
    if matches!(value, "" | "0") {
        return;
    }
    if value.len() >= FILE_NAME_BYTES {
        let most = FILE_NAME_BYTES;
        return warn(format_args!("QUARRY_PROFILE: a file name has fewer than {most} bytes"));
    }
    // SAFETY: one thread reads the settings, and no thread reads the name before LENGTH is set.
    unsafe {
        core::ptr::copy_nonoverlapping(value.as_ptr(), NAME.0.get().cast(), value.len());
    }
    LENGTH.store(value.len(), Ordering::Release);
}

/// Starts the profile, if one is wanted, and registers it to be written at exit.
pub(crate) fn start_if_asked() {
    if LENGTH.load(Ordering::Acquire) == 0 {
        return;
    }
    if let Err(error) = start(MEAN.load(Ordering::Relaxed)) {
        return complain(&error);
    }
    if !IS_REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the object that the function is in is never unloaded.
        unsafe { libc::atexit(write_at_exit) };
    }
}

/// In the child of a fork: starts a profile for it, if its file gets a different name.
pub(super) fn start_in_child() {
    if name().is_some_and(|name| name.contains("%p")) {
        start_if_asked();
    }
}

fn name() -> Option<&'static str> {
    let length = LENGTH.load(Ordering::Acquire);
    // SAFETY: the name was written before its length, and never changes again.
    let bytes = unsafe { core::slice::from_raw_parts(NAME.0.get().cast::<u8>(), length) };
    core::str::from_utf8(bytes).ok().filter(|name| !name.is_empty())
}

fn complain(error: &ProfileError) {
    warn(format_args!("no heap profile: QUARRY_PROFILE={}: {error}", name().unwrap_or("")));
}

extern "C" fn write_at_exit() {
    let Some(name) = name() else { return };
    stop();
    if is_of_this_process()
        && let Err(error) = open(name).and_then(|file| write_to(file.0))
    {
        complain(&error);
    }
}

/// A file, closed when dropped.
struct File(c_int);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: we opened it, and no other code knows it.
        unsafe { libc::close(self.0) };
    }
}

/// Opens the file of this name, with the number of the process for `%p`. Another user may have put
/// something else there, so only a regular file is accepted.
fn open(name: &str) -> Result<File, ProfileError> {
    let mut path = Line::<{ FILE_NAME_BYTES + 16 }>::default();
    let mut parts = name.split("%p");
    let _ = path.write_str(parts.next().unwrap_or(""));
    for part in parts {
        // SAFETY: getpid has no preconditions.
        let _ = write!(path, "{}{part}", unsafe { libc::getpid() });
    }
    let _ = path.write_str("\0");
    let path = CStr::from_bytes_until_nul(path.as_bytes());
    let path = path.map_err(|_| ProfileError::System(libc::ENAMETOOLONG))?;
    let access = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
    let wary = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    // SAFETY: the path is NUL-terminated and outlives the calls; `status` is writable.
    unsafe {
        let file = libc::open(path.as_ptr(), access | wary, 0o600);
        if file < 0 {
            return Err(ProfileError::System(errno::last()));
        }
        let file = File(file);
        let mut status = core::mem::zeroed::<libc::stat>();
        let is_regular = libc::fstat(file.0, &raw mut status) == 0
            && status.st_mode & libc::S_IFMT == libc::S_IFREG;
        if !is_regular {
            return Err(ProfileError::System(libc::EINVAL));
        }
        if libc::ftruncate(file.0, 0) != 0 {
            return Err(ProfileError::System(errno::last()));
        }
        Ok(file)
    }
}
