//! Sends the statistics page to the watcher of `quarry run --stats`. The watcher outlives the
//! program: it keeps the page of every process that descends from the program, and reads the pages
//! when the program has ended in any way.
//!
//! The watcher cannot open pages through `/proc`, because a process may end before that. So each
//! process sends its page to the watcher when it makes the page.

use core::ffi::{CStr, c_char};
use quarry_sys::send_descriptor::send_descriptor;

unsafe extern "C" {
    /// glibc's name of the program without its directory.
    static program_invocation_short_name: *const c_char;
}

/// Bytes of a message: the pid, and as much of the program's name as fits.
const MESSAGE_BYTES: usize = 64;

pub(crate) fn tell(socket: &[u8], page: i32) {
    // SAFETY: glibc sets the short name, which ends with a NUL, before any constructor runs.
    let (pid, name) = unsafe { (libc::getpid(), CStr::from_ptr(program_invocation_short_name)) };
    let mut message = [0; MESSAGE_BYTES];
    let pid = pid.to_ne_bytes();
    message[..pid.len()].copy_from_slice(&pid);
    for (place, byte) in message[pid.len()..].iter_mut().zip(name.to_bytes()) {
        *place = *byte;
    }
    send_descriptor(socket, &message, page);
}
