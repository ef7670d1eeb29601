//! Looking at memory that belongs to the program, and may be protected or gone.
//!
//! What a program does with its memory is its own affair: it may take access away from it
//! (`mprotect`), and a plain load would then end the process. The kernel loads for us, by a call
//! that `malloc` of the C library makes as well, and says so where it cannot.

/// Whether the 32-bit word at `address`, a multiple of 4, is zero; `None` where it cannot be read.
/// One system call.
#[must_use]
pub fn is_zero(address: usize) -> Option<bool> {
    #[cfg(not(any(miri, quarry_model)))]
    {
        if crate::confined::is_confined() {
            return None;
        }
        // A second futex, on which nobody waits either.
        static NOBODY: crate::primitive::AtomicU32 = crate::primitive::AtomicU32::new(0);
        let operation = libc::FUTEX_CMP_REQUEUE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: with nobody to wake and nobody to move, the call compares the word with 0 and
        // does nothing else; the kernel checks both addresses.
        let found =
            unsafe { libc::syscall(libc::SYS_futex, address, operation, 0, 0, NOBODY.as_ptr(), 0) };
        if found >= 0 {
            return Some(true);
        }
        let error = crate::errno::get();
        (error == libc::EAGAIN).then_some(false)
    }
    #[cfg(any(miri, quarry_model))]
    {
        let _ = address;
        None
    }
}

#[cfg(all(test, not(any(miri, quarry_model))))]
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
        // SAFETY: a mapping of our own, which nobody else knows.
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
