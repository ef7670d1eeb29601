//! Writes statistics when the process ends, as `QUARRY_STATS` requests.
//!
//! By then a program may have closed standard error and opened another file under that number, and
//! another user may have created something under the name of the file. Statistics go only to the
//! requested place, and never wait for a reader. If the process can see at its start that
//! statistics cannot be written, it reports this at once: a user should not learn it hours later.

use crate::file_name::{BadName, FileName, Refusal, look_at, open_regular};
use crate::written::{Format, write_stats};
use core::ffi::c_int;
use quarry_sys::confined::is_confined;
use quarry_sys::errno;
use quarry_sys::file_descriptor::{duplicate, status};
use quarry_sys::own_stack;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use quarry_sys::report::{warn, warn_to};

const NOWHERE: u32 = 0;
const STANDARD_ERROR: u32 = 1;
const FILE: u32 = 2;
static TARGET: AtomicU32 = AtomicU32::new(NOWHERE);

/// The descriptor of a copy of standard error, which programs may close; 2 if there is no copy.
static COPY: AtomicU32 = AtomicU32::new(libc::STDERR_FILENO as u32);
/// The lowest number of the copy: programs expect to get the lowest free descriptors.
const COPY_FROM: c_int = 100;
/// The device of standard error at the start of the process; initially the number of no device.
static DEVICE: AtomicU64 = AtomicU64::new(u64::MAX);
static INODE: AtomicU64 = AtomicU64::new(0);

static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
/// The process has reported at its start that the file cannot be written.
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

static NAME: FileName = FileName::new();
/// [`Format`] of the statistics; `UNCHOSEN`: chosen by the file name's extension.
static FORMAT: AtomicU32 = AtomicU32::new(UNCHOSEN);
const UNCHOSEN: u32 = 0;
const TEXT: u32 = 1;
const JSON: u32 = 2;

/// Registers the print at exit, if statistics are requested. Otherwise no code of the library runs
/// at exit, because that would bring another page into memory in each child of a fork.
pub(crate) fn register() {
    if TARGET.load(Ordering::Acquire) != NOWHERE && !IS_REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the object that the function is in is never unloaded.
        unsafe { libc::atexit(print_at_exit) };
    }
}

pub(crate) fn set_format(value: &str) {
    match value {
        "json" => FORMAT.store(JSON, Ordering::Relaxed),
        "text" => FORMAT.store(TEXT, Ordering::Relaxed),
        _ => {}
    }
}

fn format(file: &[u8]) -> Format {
    match FORMAT.load(Ordering::Relaxed) {
        JSON => Format::Json,
        UNCHOSEN if file.ends_with(b".json") => Format::Json,
        _ => Format::Text,
    }
}

/// Sets the target to the value of `QUARRY_STATS`, in the one thread that reads the settings.
///
/// # Errors
/// The text is not a file name. This prints a line.
pub(crate) fn prepare(value: &str) -> Result<(), BadName> {
    let target = match value {
        "" | "0" => NOWHERE,
        "1" => STANDARD_ERROR,
        // SAFETY: only this thread sets the name, and no thread reads it before TARGET is set.
        _ => match unsafe { NAME.set(value) } {
            Ok(()) => FILE,
            Err(bad) => {
                warn(format_args!("no statistics: QUARRY_STATS={value}: {bad}"));
                return Err(bad);
            }
        },
    };
    if target != NOWHERE
        && let Ok(status) = status(libc::STDERR_FILENO)
    {
        DEVICE.store(status.st_dev, Ordering::Relaxed);
        INODE.store(status.st_ino, Ordering::Relaxed);
    }
    if target != NOWHERE {
        // A failure leaves the original.
        if let Ok(copy) = duplicate(libc::STDERR_FILENO, COPY_FROM) {
            COPY.store(copy.leave_open() as u32, Ordering::Relaxed);
        }
    }
    // Skipped if the process is confined: the C library's malloc would not access a file.
    if target == FILE && !is_confined() {
        // SAFETY: the name was set above.
        let (given, name) = unsafe { (NAME.given(), NAME.expanded()) };
        if let Err(reason) = look_at(name.as_c_str()) {
            complain(libc::STDERR_FILENO, given, &reason);
            HAS_COMPLAINED.store(true, Ordering::Relaxed);
        }
    }
    TARGET.store(target, Ordering::Release);
    Ok(())
}

extern "C" fn print_at_exit() {
    print();
}

pub(crate) fn print() {
    let (target, error) = (TARGET.load(Ordering::Acquire), standard_error());
    if target == STANDARD_ERROR
        && let Some(error) = error
    {
        let _ = write_stats(error, format(b""));
    }
    if target != FILE {
        return;
    }
    // SAFETY: TARGET is FILE, so the name was set before.
    let (given, name) = unsafe { (NAME.given(), NAME.expanded()) };
    let format = format(name.as_c_str().to_bytes());
    let written = open_regular(name.as_c_str(), libc::O_APPEND, 0o644).and_then(|file| {
        write_stats(file.number(), format).map_err(|_| Refusal::CannotWrite(errno::last()))
    });
    // The program may have made the folder since the start. If not, the start reported the failure.
    if let Err(reason) = written
        && let Some(error) = error
        && !HAS_COMPLAINED.load(Ordering::Relaxed)
    {
        complain(error, given, &reason);
    }
}

fn complain(descriptor: c_int, name: &str, reason: &Refusal) {
    warn_to(
        descriptor,
        format_args!("no statistics: QUARRY_STATS={name} {reason}; use 0, 1 or a regular file"),
    );
}

/// A descriptor that refers to the same standard error as at the start of the process.
fn standard_error() -> Option<c_int> {
    let is_the_same = |descriptor: &c_int| {
        status(*descriptor).is_ok_and(|status| {
            status.st_dev == DEVICE.load(Ordering::Relaxed)
                && status.st_ino == INODE.load(Ordering::Relaxed)
        })
    };
    [COPY.load(Ordering::Relaxed) as c_int, libc::STDERR_FILENO].into_iter().find(is_the_same)
}

/// Prints the statistics to a file descriptor. Text that cannot be written is dropped.
pub fn print_stats_to(fd: i32) {
    let _ = own_stack::run(|| write_stats(fd, Format::Text));
}
