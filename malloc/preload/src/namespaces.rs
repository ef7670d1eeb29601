//! `unshare` and `setns`, as the C library has them, but without Quarry's own thread.
//!
//! The kernel gives a user namespace of its own only to a process with one thread. In a program
//! with one thread Quarry's is there for about a second after the program has freed much memory.

use core::ffi::{c_int, c_long};
use quarry::process::end_brief_thread;

fn call(number: c_long, first: c_int, second: c_int) -> c_int {
    end_brief_thread();
    // SAFETY: both calls take numbers only.
    unsafe { libc::syscall(number, first, second) as c_int }
}

/// Like the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn unshare(flags: c_int) -> c_int {
    call(libc::SYS_unshare, flags, 0)
}

/// Like the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn setns(descriptor: c_int, kind: c_int) -> c_int {
    call(libc::SYS_setns, descriptor, kind)
}
