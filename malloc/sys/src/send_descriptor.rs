//! Sends a file descriptor to another process, which receives at an abstract socket.

use crate::file_descriptor::opened;
use core::mem::{offset_of, zeroed};
use core::ptr::addr_of_mut;

/// Longest name of a socket, without the NUL in front (`unix(7)`).
pub const LONGEST_NAME: usize = 107;

/// A control message with one descriptor, aligned as the kernel requires.
#[repr(C)]
struct Control {
    head: libc::cmsghdr,
    descriptor: libc::c_int,
}

/// Longest wait for a receiver whose queue is full, in microseconds.
const PATIENCE_US: i32 = 50_000;

/// Sends `descriptor` with `text` to the datagram socket with this abstract name, if it exists.
/// Four system calls; `errno` may change.
///
/// If the receiver is stopped or slower than `PATIENCE_US`, nothing is sent. Raises no signal.
pub fn send_descriptor(name: &[u8], text: &[u8], descriptor: i32) {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return;
    }
    // SAFETY: all zero is a value of these C structures, which are numbers, arrays and pointers.
    let (mut address, mut message, mut head): (libc::sockaddr_un, libc::msghdr, libc::cmsghdr) =
        unsafe { (zeroed(), zeroed(), zeroed()) };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (place, byte) in address.sun_path[1..].iter_mut().zip(name) {
        *place = *byte as libc::c_char;
    }
    // SAFETY: CMSG_LEN is arithmetic.
    let head_length = unsafe { libc::CMSG_LEN(size_of::<libc::c_int>() as u32) };
    head.cmsg_len = head_length as _;
    head.cmsg_level = libc::SOL_SOCKET;
    head.cmsg_type = libc::SCM_RIGHTS;
    let mut control = Control { head, descriptor };
    let mut piece = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    message.msg_name = addr_of_mut!(address).cast();
    message.msg_namelen =
        (offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len()) as libc::socklen_t;
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = addr_of_mut!(control).cast();
    message.msg_controllen = head_length as _;
    // SAFETY: this function makes and closes the socket. The message, and all that it points to,
    // lives until the call returns; the kernel only reads it.
    unsafe {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        if let Ok(socket) = opened(libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0)) {
            let patience = libc::timeval { tv_sec: 0, tv_usec: PATIENCE_US.into() };
            let (time, bytes) = (&raw const patience, size_of_val(&patience));
            let (number, level, option) = (socket.number(), libc::SOL_SOCKET, libc::SO_SNDTIMEO);
            libc::syscall(libc::SYS_setsockopt, number, level, option, time, bytes);
            libc::syscall(libc::SYS_sendmsg, number, &raw const message, libc::MSG_NOSIGNAL);
        }
    }
}
