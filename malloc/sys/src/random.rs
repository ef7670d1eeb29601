//! Unpredictable numbers.

use crate::confined::is_confined;

/// An unpredictable number, by one system call. If the kernel refuses or the process is confined,
/// the number is the random part of a stack address.
#[must_use]
pub fn random() -> usize {
    let mut number = 0usize;
    let (place, bytes) = (&raw mut number, size_of::<usize>());
    let (call, flags) = (libc::SYS_getrandom, libc::GRND_NONBLOCK);
    // SAFETY: `number` has as many bytes as are asked for.
    let got = if is_confined() { 0 } else { unsafe { libc::syscall(call, place, bytes, flags) } };
    if got == size_of::<usize>() as _ { number } else { place as usize >> 4 }
}
