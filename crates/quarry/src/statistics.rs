//! Where statistics go when the process ends: `QUARRY_STATS`.
//!
//! By then a program may have closed standard error and opened files of its own under that number,
//! and anybody may have put something under the name of the file. Nothing is ever written where
//! it was not asked for, and nothing waits for a reader.

use crate::process::print_stats_to;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering};
use quarry_sys::report::{warn, warn_to};

const NOWHERE: u32 = 0;
const STANDARD_ERROR: u32 = 1;
const FILE: u32 = 2;
static TARGET: AtomicU32 = AtomicU32::new(NOWHERE);

/// A copy of standard error, for programs that close theirs to be sure of their output; where it
/// could not be copied, itself.
static COPY: AtomicU32 = AtomicU32::new(libc::STDERR_FILENO as u32);
/// Where the copy is put at least: out of the way of programs that count on the lowest free
/// descriptors.
const COPY_FROM: c_int = 100;
/// What standard error was when the process started; a device of this number does not exist.
static DEVICE: AtomicU64 = AtomicU64::new(u64::MAX);
static INODE: AtomicU64 = AtomicU64::new(0);

static NAME: FileName = FileName(UnsafeCell::new([0; FILE_NAME_BYTES]));
/// Bytes of the longest file name with its NUL (`PATH_MAX` of Linux).
const FILE_NAME_BYTES: usize = libc::PATH_MAX as usize;

/// A copy of the name: daemons that change their title write over the environment itself.
struct FileName(UnsafeCell<[u8; FILE_NAME_BYTES]>);

// SAFETY: written by `set_target` only, from the one thread that builds the process-wide stack, and
// read only after `TARGET` was seen to be FILE, which is stored afterwards with release ordering.
unsafe impl Sync for FileName {}

/// Takes the value of `QUARRY_STATS`. Called once, while nothing else is under way.
pub(crate) fn set_target(value: &str) {
    let target = match value {
        "" | "0" => NOWHERE,
        "1" => STANDARD_ERROR,
        _ if value.len() >= FILE_NAME_BYTES => {
            return warn(format_args!(
                "QUARRY_STATS: a file name has fewer than {FILE_NAME_BYTES} bytes"
            ));
        }
        _ => FILE,
    };
    if target != NOWHERE
        && let Some(status) = status_of(libc::STDERR_FILENO)
    {
        DEVICE.store(status.st_dev, Ordering::Relaxed);
        INODE.store(status.st_ino, Ordering::Relaxed);
    }
    if target == STANDARD_ERROR {
        // SAFETY: duplicating a descriptor touches no memory; a failure leaves the original.
        let copy = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, COPY_FROM) };
        if copy >= 0 {
            COPY.store(copy as u32, Ordering::Relaxed);
        }
    }
    if target == FILE {
        // SAFETY: nobody reads before TARGET says so below, and only the builder of the stack
        // writes; the value and a NUL fit.
        unsafe {
            let name = NAME.0.get().cast::<u8>();
            core::ptr::copy_nonoverlapping(value.as_ptr(), name, value.len());
            name.add(value.len()).write(0);
        }
    }
    TARGET.store(target, Ordering::Release);
}

/// Lets them be printed at exit, if they are asked for. In a process that asks for none nothing of
/// the library runs at exit: each child of a fork would bring it into memory for that.
pub(crate) fn register() {
    if TARGET.load(Ordering::Acquire) != NOWHERE {
        // SAFETY: the object that the function is in is never unloaded.
        unsafe { libc::atexit(print_at_exit) };
    }
}

/// Prints the statistics where `QUARRY_STATS` says.
extern "C" fn print_at_exit() {
    let target = TARGET.load(Ordering::Acquire);
    let error = standard_error();
    if target == STANDARD_ERROR {
        error.into_iter().for_each(print_stats_to);
        return;
    }
    // SAFETY: TARGET was FILE, so the name was written before and is NUL-terminated.
    let name = unsafe { CStr::from_ptr(NAME.0.get().cast()) };
    match RegularFile::append_to(name) {
        Ok(file) => print_stats_to(file.0),
        Err(reason) => {
            if let Some(error) = error {
                let name = name.to_str().unwrap_or("?");
                warn_to(error, format_args!("no statistics: {name} {reason}"));
            }
        }
    }
}

/// A descriptor that is what standard error was when the process started.
fn standard_error() -> Option<c_int> {
    let is_the_same = |descriptor: &c_int| {
        status_of(*descriptor).is_some_and(|status| {
            status.st_dev == DEVICE.load(Ordering::Relaxed)
                && status.st_ino == INODE.load(Ordering::Relaxed)
        })
    };
    [COPY.load(Ordering::Relaxed) as c_int, libc::STDERR_FILENO].into_iter().find(is_the_same)
}

fn status_of(descriptor: c_int) -> Option<libc::stat> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: fstat fills `status` where it succeeds, and only then it is taken as filled.
    unsafe { (libc::fstat(descriptor, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
}

/// A file that statistics are appended to, closed when dropped.
struct RegularFile(c_int);

impl RegularFile {
    /// Opens it, or makes it; the error goes on after its name.
    fn append_to(name: &CStr) -> Result<Self, Refusal> {
        let access = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
        // A pipe without a reader would wait for one; a link leads where somebody else wants.
        let wary = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
        // SAFETY: the name is NUL-terminated and outlives the call.
        let descriptor = unsafe { libc::open(name.as_ptr(), access | wary, 0o644) };
        if descriptor < 0 {
            // SAFETY: __errno_location returns this thread's own errno.
            return Err(match unsafe { *libc::__errno_location() } {
                libc::ELOOP | libc::ENXIO | libc::EISDIR => Refusal::NotRegular,
                error => Refusal::CannotOpen(error),
            });
        }
        let file = Self(descriptor);
        let is_regular = status_of(descriptor)
            .is_some_and(|status| status.st_mode & libc::S_IFMT == libc::S_IFREG);
        if is_regular { Ok(file) } else { Err(Refusal::NotRegular) }
    }
}

impl Drop for RegularFile {
    fn drop(&mut self) {
        // SAFETY: we opened it, and nobody else knows it.
        unsafe { libc::close(self.0) };
    }
}

/// Why a file gets no statistics; prints as the end of a sentence.
enum Refusal {
    NotRegular,
    CannotOpen(c_int),
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotRegular => out.write_str("is not a regular file"),
            Self::CannotOpen(error) => write!(out, "cannot be opened (errno {error})"),
        }
    }
}
