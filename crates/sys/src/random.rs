//! Unpredictable numbers.

use crate::confined::is_confined;

/// An unpredictable number, by one system call. If the kernel refuses or the process is confined,
/// the number is the random part of a stack address.
#[must_use]
pub fn random() -> usize {
    let mut number = 0usize;
    if is_confined() {
        return (&raw const number) as usize >> 4;
    }
    let bytes = (&raw mut number).cast();
    // SAFETY: `number` has as many bytes as are asked for.
    let got = unsafe { libc::getrandom(bytes, size_of::<usize>(), libc::GRND_NONBLOCK) };
    if got == size_of::<usize>() as isize { number } else { (&raw const number) as usize >> 4 }
}
