//! Bare system calls: what they return, as a value or as an error.
//!
//! Quarry makes system calls by `libc::syscall`. Many of libc's own functions are cancellation
//! points: there a cancelled thread would end while it holds locks of the allocator. Also, each
//! function that a shared object names costs a look-up at each start. Of the calls for memory,
//! files and the process only those for mappings are libc's: tools and tests replace these.

use crate::errno::{OsError, OsResult};
use core::arch::asm;
use core::ffi::{c_long, c_void};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Returns the result of a system call, or the error that it has left in `errno`.
///
/// # Errors
/// The error of the system call.
pub fn checked(result: c_long) -> OsResult<usize> {
    usize::try_from(result).map_err(|_| OsError::last())
}

/// Makes a system call, and repeats it after each signal that interrupts it.
///
/// # Errors
/// The error of the system call.
pub fn repeated(mut call: impl FnMut() -> c_long) -> OsResult<usize> {
    loop {
        match checked(call()) {
            Err(OsError(libc::EINTR)) => {}
            result => return result,
        }
    }
}

/// Returns the structure that a system call fills; `call` gets its address.
///
/// # Errors
/// The error of the system call.
///
/// # Safety
/// If `call` returns no negative number, it has filled the structure.
pub unsafe fn filled<T>(call: impl FnOnce(*mut T) -> c_long) -> OsResult<T> {
    let mut place = MaybeUninit::uninit();
    checked(call(place.as_mut_ptr()))?;
    // SAFETY: the caller's promise.
    Ok(unsafe { place.assume_init() })
}

/// Returns the result of `mmap` or `mremap`, or the error that it has left in `errno`.
///
/// # Errors
/// The error of the call; `ENOMEM` for a mapping at address 0.
pub fn mapped(start: *mut c_void) -> OsResult<NonNull<u8>> {
    if start == libc::MAP_FAILED {
        return Err(OsError::last());
    }
    NonNull::new(start.cast()).ok_or(OsError(libc::ENOMEM))
}

/// Returns the number of the process. By a bare instruction: in the child of a fork, libc's
/// `syscall` would cost a page fault; and another object may have replaced libc's `getpid`.
#[must_use]
pub fn process_id() -> u32 {
    let mut register = libc::SYS_getpid;
    // SAFETY: the call has no preconditions, and changes only the registers that are named.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("syscall", inout("rax") register, out("rcx") _, out("r11") _, options(nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("svc 0", in("x8") register, lateout("x0") register, options(nostack));
    }
    register as u32
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_number_of_the_process_is_the_kernels() {
        assert_eq!(super::process_id(), std::process::id());
    }
}
