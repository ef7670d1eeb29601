//! The heap profile, for C. The documentation in this file also becomes that of `quarry.h`.

use crate::heap_api::answer;
use core::ffi::c_int;
use quarry::profile::{self, DEFAULT_MEAN_BYTES};
use quarry_sys::errno::KeepErrno;

/// Starts a heap profile with about one sample in mean_bytes; 0 stands for 512 KiB. Clears the
/// counts of the previous profile. Returns 0, or -1 with ENOTSUP if QUARRY_DISABLE=1, EALREADY if a
/// profile is on, EBUSY if another thread is switching it, or the error of the system.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_profile_start(mean_bytes: usize) -> c_int {
    answer(profile::start(if mean_bytes == 0 { DEFAULT_MEAN_BYTES } else { mean_bytes }))
}

/// Stops the heap profile. Its counts can still be written to a file.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_profile_stop() {
    profile::stop();
}

/// Writes the heap profile that is on, or the last profile, to a file descriptor: about 1 MiB, of
/// which `quarry profile FILE` makes a profile for pprof, a flame graph or text. Returns 0, or -1
/// with ENODATA if there was no profile, or the error of the system.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_profile_write(fd: c_int) -> c_int {
    let written = {
        let _errno = KeepErrno::new();
        profile::write_to_descriptor(fd)
    };
    answer(written)
}
