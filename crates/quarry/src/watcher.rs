//! `quarry run --stats` outlives the program: its watcher keeps the page of every process that
//! descends from it, and reads them when the program has ended, however it did.
//!
//! The watcher cannot open a page by `/proc`, because a process may live shorter than that takes.
//! So each process hands its page over when it makes it.

use crate::variables::each_entry;
use core::ffi::{CStr, c_char};
use quarry_sys::send_descriptor::send_descriptor;

/// Names the abstract socket at which the watcher waits.
const VARIABLE: &[u8] = b"QUARRYRUN_STATS=";

unsafe extern "C" {
    /// glibc's name of the program without its directory.
    static program_invocation_short_name: *const c_char;
}

/// Hands the page with this descriptor to the watcher, if one waits.
pub(crate) fn tell(page: i32) {
    each_entry(|entry| {
        if let Some(socket) = entry.strip_prefix(VARIABLE) {
            // SAFETY: glibc sets the short name before any constructor runs, and it stays a
            // NUL-terminated string.
            let name = unsafe { CStr::from_ptr(program_invocation_short_name) };
            send_descriptor(socket, name.to_bytes(), page);
        }
    });
}
