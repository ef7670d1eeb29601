//! Properties of the whole process, read from `/proc` without allocating.

use core::str::from_utf8;
use quarry_sys::file::find_piece;

/// Lines of `/proc/self/status` (`fs/proc/array.c`, Linux 6.x). The file describes the main thread,
/// which stays listed until all other threads have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// The main thread has ended by `pthread_exit`.
    pub(super) main_has_ended: bool,
    /// Number of threads; the main thread is always counted.
    pub(super) threads: u32,
    /// The main thread has set `PR_SET_NO_NEW_PRIVS`.
    pub(super) no_new_privileges: bool,
}

impl Status {
    pub(super) fn read() -> Option<Self> {
        let mut status = Self::default();
        let _ = find_piece(c"/proc/self/status", b'\n', |line| {
            let (name, value) = from_utf8(line).ok()?.split_once(':')?;
            let value = value.trim_ascii();
            match name {
                "State" => status.main_has_ended = value.starts_with('Z'),
                "Threads" => status.threads = value.parse().ok()?,
                // The last line that is needed. The file has it from Linux 4.10 on.
                "NoNewPrivs" => {
                    status.no_new_privileges = value == "1";
                    return Some(());
                }
                _ => {}
            }
            None
        });
        (status.threads > 0).then_some(status)
    }
}
