//! Filters of system calls (seccomp), which may kill a process for a call that they do not allow.

use crate::errno::{OsError, OsResult};
use crate::file::try_find_piece;
use crate::primitive::{AtomicBool, Ordering};

/// False if the process may have had a filter at its start.
static BEGAN_WITHOUT: AtomicBool = AtomicBool::new(false);

/// Returns whether a filter may be in force for the calling thread, by `prctl`. To be called only
/// at the start of a process, before it installs a filter of its own. (The risk is small: an
/// inherited filter that forbids `prctl` may forbid other calls of the start, too.)
pub fn may_be_filtered() -> bool {
    // SAFETY: takes a number only.
    let mode = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    BEGAN_WITHOUT.store(mode == 0, Ordering::Relaxed);
    mode != 0
}

/// Returns whether the kernel reports that no filter is in force for the calling thread (`Seccomp:`
/// of `/proc/thread-self/status`, Linux 3.17). Reads that file only, because a filter may forbid
/// `prctl`. Takes 50 us.
#[must_use]
pub fn is_unfiltered() -> bool {
    mode() == Ok(Some(true))
}

/// Returns whether the program may have put a filter on the calling thread since it started. False
/// where `/proc` is missing, and where the process started under a filter. Takes 50 us.
#[must_use]
pub fn may_have_new_filter() -> bool {
    BEGAN_WITHOUT.load(Ordering::Relaxed)
        && !matches!(mode(), Ok(Some(true)) | Err(OsError(libc::ENOENT)))
}

fn mode() -> OsResult<Option<bool>> {
    try_find_piece(c"/proc/thread-self/status", b'\n', |line| {
        Some(line.strip_prefix(b"Seccomp:")?.trim_ascii() == b"0")
    })
}

#[cfg(all(test, not(any(miri, quarry_model, quarry_sim))))]
mod tests {
    use super::*;

    #[test]
    fn the_file_and_the_call_say_the_same() {
        assert_eq!(is_unfiltered(), !may_be_filtered());
    }
}
