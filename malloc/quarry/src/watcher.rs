//! Sends the statistics page to the watcher of `quarry run --stats`. The watcher outlives the
//! program: it keeps the page of every process that descends from the program, and reads the pages
//! when the program has ended in any way.
//!
//! The watcher cannot open pages through `/proc`, because a process may end before that. So each
//! process sends its page to the watcher when it makes the page.

use crate::written::process;
use quarry_sys::send_descriptor::send_descriptor;

/// Bytes of a message: the pid, and as much of the program's name as fits.
const MESSAGE_BYTES: usize = 64;

pub(crate) fn tell(socket: &[u8], page: i32) {
    let (name, pid) = process();
    let mut message = [0; MESSAGE_BYTES];
    let bytes = pid.to_ne_bytes().into_iter().chain(name.to_bytes().iter().copied());
    message.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    send_descriptor(socket, &message, page);
}
