//! A profile of the whole life of a process (`QUARRY_PROFILE`). It shows memory in use at the exit
//! as leaked, although the program may have left its release to the system on purpose.

use super::DEFAULT_MEAN_BYTES;
use super::output::write_to_descriptor;
use super::switch::{begin, is_of_this_process, stop};
use crate::error::{Error, OsError};
use crate::file_name::{FileName, open_regular};
use core::ffi::CStr;
use quarry_sys::file_descriptor::FileDescriptor;
use quarry_sys::primitive::{AtomicBool, AtomicUsize, Ordering};
use quarry_sys::report::warn;

static NAME: FileName = FileName::new();
static IS_NAMED: AtomicBool = AtomicBool::new(false);
static MEAN: AtomicUsize = AtomicUsize::new(DEFAULT_MEAN_BYTES);
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

pub(crate) fn prepare(name: &str, value: &str) {
    if name == "PROFILE_MEAN" {
        let mean = quarry_mm::heap::options::parse_bytes(value).filter(|mean| *mean > 0);
        return MEAN.store(mean.unwrap_or(DEFAULT_MEAN_BYTES), Ordering::Relaxed);
    }
    if matches!(value, "" | "0") {
        return;
    }
    // SAFETY: one thread reads the settings, and no thread reads the name before IS_NAMED is set.
    match unsafe { NAME.set(value) } {
        Ok(()) => IS_NAMED.store(true, Ordering::Release),
        Err(bad) => warn(format_args!("no heap profile: QUARRY_PROFILE={value}: {bad}")),
    }
}

pub(crate) fn start_if_asked() {
    if name().is_none() {
        return;
    }
    if let Err(error) = begin(MEAN.load(Ordering::Relaxed), false) {
        return complain(&error);
    }
    if !IS_REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the object that the function is in is never unloaded.
        unsafe { libc::atexit(write_at_exit) };
    }
}

/// In the child of a fork: starts a profile for the child, if `%p` gives it a file of its own.
pub(super) fn start_in_child() {
    if name().is_some_and(|name| name.contains("%p")) {
        start_if_asked();
    }
}

fn name() -> Option<&'static str> {
    // SAFETY: the name was set before IS_NAMED, and never changes again.
    IS_NAMED.load(Ordering::Acquire).then(|| unsafe { NAME.given() })
}

fn complain(error: &Error) {
    let (name, errno) = (name().unwrap_or(""), error.errno());
    warn(format_args!("no heap profile: QUARRY_PROFILE={name}: {error} (errno {errno})"));
}

extern "C" fn write_at_exit() {
    stop();
    // SAFETY: this is registered only once the name was set.
    let name = unsafe { NAME.expanded() };
    if is_of_this_process()
        && let Err(error) =
            open(name.as_c_str()).and_then(|file| write_to_descriptor(file.number()))
    {
        complain(&error);
    }
}

fn open(path: &CStr) -> Result<FileDescriptor, Error> {
    let file = open_regular(path, 0, 0o600)?.ok_or(OsError(libc::EINVAL))?;
    file.set_size(0)?;
    Ok(file)
}
