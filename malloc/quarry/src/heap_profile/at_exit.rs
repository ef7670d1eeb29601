//! A profile of the whole life of a process (`QUARRY_PROFILE`). It shows memory in use at the exit
//! as leaked, although the program may have left its release to the system on purpose.

use super::DEFAULT_MEAN_BYTES;
use super::output::write_to_descriptor;
use super::switch::{begin, is_of_this_process, stop};
use crate::error::Error;
use crate::file_name::{BadName, FileName, Reason, Refusal, look_at, open_regular};
use core::fmt::Display;
use quarry_mm::heap::options::parse_bytes;
use quarry_sys::confined::is_confined;
use quarry_sys::primitive::{AtomicBool, AtomicUsize, Ordering};
use quarry_sys::report::warn;
use quarry_watch::profile::ProfileKind;

static NAME: FileName = FileName::new();
static IS_NAMED: AtomicBool = AtomicBool::new(false);
static MEAN: AtomicUsize = AtomicUsize::new(DEFAULT_MEAN_BYTES);
/// The process has reported at its start that the file cannot be written.
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Sets the mean to the value of `QUARRY_PROFILE_MEAN`.
pub(crate) fn set_mean(value: &str) {
    let mean = parse_bytes(value).filter(|mean| *mean > 0);
    MEAN.store(mean.unwrap_or(DEFAULT_MEAN_BYTES), Ordering::Relaxed);
}

pub(super) fn mean() -> usize {
    MEAN.load(Ordering::Relaxed)
}

/// Sets the file to the value of `QUARRY_PROFILE`, in the one thread that reads the settings.
///
/// # Errors
/// The text is not a file name. This prints a line.
pub(crate) fn prepare(value: &str) -> Result<(), BadName> {
    if matches!(value, "" | "0") {
        return Ok(());
    }
    // SAFETY: one thread reads the settings, and no thread reads the name before IS_NAMED is set.
    if let Err(bad) = unsafe { NAME.set(value) } {
        warn(format_args!("no heap profile: QUARRY_PROFILE={value}: {bad}"));
        return Err(bad);
    }
    IS_NAMED.store(true, Ordering::Release);
    // Skipped if the process is confined: the C library's malloc would not access a file.
    if !is_confined() {
        // SAFETY: the name was set above.
        let name = unsafe { NAME.expanded() };
        if let Err(reason) = look_at(name.as_c_str()) {
            complain(&reason);
            HAS_COMPLAINED.store(true, Ordering::Relaxed);
        }
    }
    Ok(())
}

pub(crate) fn start_if_asked() {
    if name().is_none() {
        return;
    }
    if let Err(error) = begin(mean(), ProfileKind::InUse) {
        let name = name().unwrap_or("");
        let reason = Reason(error.errno());
        return warn(format_args!("no heap profile: QUARRY_PROFILE={name}: {reason}"));
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

fn complain(reason: &dyn Display) {
    let name = name().unwrap_or("");
    warn(format_args!("no heap profile: QUARRY_PROFILE={name} {reason}; use 0 or a regular file"));
}

extern "C" fn write_at_exit() {
    stop();
    // The program may have made the folder since the start. If not, the start reported the failure.
    if is_of_this_process()
        && let Err(reason) = write()
        && !HAS_COMPLAINED.load(Ordering::Relaxed)
    {
        complain(&reason);
    }
}

fn write() -> Result<(), Refusal> {
    // SAFETY: the function that calls this is registered only once the name was set.
    let name = unsafe { NAME.expanded() };
    let file = open_regular(name.as_c_str(), 0, 0o600)?;
    let written = file.set_size(0).map_err(Error::from);
    written
        .and_then(|()| write_to_descriptor(file.number()))
        .map_err(|error| Refusal::CannotWrite(error.errno()))
}
