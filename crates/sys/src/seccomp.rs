//! Filters of system calls (seccomp), which may kill a process for a call that they do not allow.

use crate::file::find_piece;

/// Returns whether a filter may be in force for the calling thread, by `prctl`. To be called only
/// at the start of a process, before it installs a filter of its own. (The risk is small: an
/// inherited filter that forbids `prctl` may forbid other calls of the start, too.)
#[must_use]
pub fn may_be_filtered() -> bool {
    // SAFETY: takes a number only.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_SECCOMP, 0, 0, 0, 0) != 0 }
}

/// Returns whether the kernel reports that no filter is in force for the calling thread (`Seccomp:`
/// of `/proc/thread-self/status`, Linux 3.17). Reads that file only, because a filter may forbid
/// `prctl`. Takes 50 us.
#[must_use]
pub fn is_unfiltered() -> bool {
    let mode = find_piece(c"/proc/thread-self/status", b'\n', |line| {
        Some(line.strip_prefix(b"Seccomp:")?.trim_ascii() == b"0")
    });
    mode == Some(true)
}

#[cfg(all(test, not(any(miri, quarry_model, quarry_sim))))]
mod tests {
    use super::*;

    #[test]
    fn the_file_and_the_call_say_the_same() {
        assert_eq!(is_unfiltered(), !may_be_filtered());
    }
}
