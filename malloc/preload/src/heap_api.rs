//! Quarry's own functions for the whole heap. The documentation in this file also becomes that of
//! `quarry.h`.

use core::ffi::{c_char, c_int};
use quarry::process::{self, Mode, ensure_ready, print_stats_to};
use quarry::{Error, Quarry};
use quarry_sys::errno::{self, KeepErrno};

/// Sets errno, and returns -1.
pub(crate) fn refused(error: c_int) -> c_int {
    errno::set(error);
    -1
}

/// 0, or -1 with the errno of the error.
pub(crate) fn answer(result: Result<(), Error>) -> c_int {
    result.map_or_else(|error| refused(error.errno()), |()| 0)
}

/// The version of the loaded library, such as "0.1.0". Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Prints slabinfo, buddyinfo and lock counters to a file descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_stats_print(fd: c_int) {
    let _errno = KeepErrno::new();
    if ensure_ready() == Mode::Ready {
        print_stats_to(fd);
    }
}

/// Sets the maximum number of bytes that the heap may hold, rounded down to 4 KiB, instead of
/// QUARRY_LIMIT; SIZE_MAX lifts the limit. Memory in use stays in use, and the heap never exceeds
/// what the control group allows. At the limit requests fail with ENOMEM after one reclaim. Returns
/// 0, or -1 with EINVAL below 4 KiB, ENOMEM, or ENOTSUP if QUARRY_DISABLE=1.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_set_limit(bytes: usize) -> c_int {
    answer(process::set_limit(bytes))
}

/// Maximum number of bytes that the heap may hold now: the lower of the limit of quarry_set_limit
/// (or QUARRY_LIMIT) and the limit of the control group when it was last read. SIZE_MAX without a
/// limit.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_limit() -> usize {
    let _errno = KeepErrno::new();
    Quarry::limit().unwrap_or(usize::MAX)
}
