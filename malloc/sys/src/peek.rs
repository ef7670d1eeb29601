//! Reads memory of the program that may be protected or unmapped.
//!
//! A plain load from memory that the program has protected by `mprotect` would end the process. So
//! the kernel loads the word, in a call that glibc's `malloc` makes too, and reports a fault.

use crate::confined::is_confined;
use crate::primitive::futex;

/// Returns whether the 32-bit word at `address`, a multiple of 4, is zero; `None` where it cannot
/// be read, or in a confined process. One system call.
#[must_use]
pub fn is_zero(address: usize) -> Option<bool> {
    if is_confined() { None } else { futex::reads_zero(address) }
}

#[cfg(all(test, not(any(miri, quarry_model, quarry_sim))))]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart() {
        let words = [0u32, 1, 0x8000_0000, 0];
        let seen = words.each_ref().map(|word| is_zero(std::ptr::from_ref(word) as usize));
        assert_eq!(seen, [Some(true), Some(false), Some(false), Some(true)]);
    }

    #[test]
    fn what_may_not_be_read_is_no_end() {
        // SAFETY: a mapping that no other code knows.
        let page = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(page, libc::MAP_FAILED);
        assert_eq!(is_zero(page as usize), None, "protected");
        // SAFETY: mapped above.
        unsafe { libc::munmap(page, 4096) };
        assert_eq!(is_zero(page as usize), None, "gone");
    }
}
