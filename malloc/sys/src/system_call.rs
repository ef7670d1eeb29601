//! Bare system calls: what they return, as a value or as an error.
//!
//! Quarry makes system calls by `libc::syscall`. Many of libc's own functions are cancellation
//! points: there a cancelled thread would end while it holds locks of the allocator. Also, each
//! function that a shared object names costs a look-up at each start. Of the calls for memory,
//! files and the process only those are libc's by which memory that a program has held leaves its
//! addresses (`munmap`, `madvise`): other libraries replace these, and must learn of it. What they
//! call in their place may allocate. So Quarry calls them only where it holds no lock that a
//! request takes; all other memory it maps and unmaps here.

use crate::errno::{OsError, OsResult};
use core::arch::asm;
use core::ffi::c_long;
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

/// Maps memory as `mmap` does.
///
/// # Errors
/// The error of the system call; `ENOMEM` for a mapping at address 0.
///
/// # Safety
/// With `MAP_FIXED`, no code uses what is mapped in the range.
pub unsafe fn map(
    at: *mut u8,
    bytes: usize,
    protection: i32,
    flags: i32,
    file: i32,
) -> OsResult<NonNull<u8>> {
    let [protection, flags, file] = [protection, flags, file].map(|it| it as isize);
    // SAFETY: the caller's promise; without MAP_FIXED a new mapping replaces nothing.
    let start = checked(unsafe {
        libc::syscall(libc::SYS_mmap, at, bytes, protection, flags, file, 0_usize)
    })?;
    NonNull::new(start as *mut u8).ok_or(OsError(libc::ENOMEM))
}

/// Unmaps memory that no program has held. Nothing changes where the system refuses.
///
/// # Safety
/// The range is the caller's, and no code uses it any more.
pub unsafe fn unmap(start: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_munmap, start, bytes) };
}

/// Gives advice about a range, as `madvise` does.
///
/// # Errors
/// The error of the system call.
///
/// # Safety
/// The range is the caller's, who has given up its contents if the advice discards them.
pub unsafe fn advise(start: *mut u8, bytes: usize, advice: i32) -> OsResult<()> {
    // SAFETY: the caller's promise.
    checked(unsafe { libc::syscall(libc::SYS_madvise, start, bytes, advice as usize) }).map(drop)
}

/// Changes the access to a range, as `mprotect` does.
///
/// # Errors
/// The error of the system call.
///
/// # Safety
/// The range is the caller's, and no code relies on an access that is taken away.
pub unsafe fn protect(start: *mut u8, bytes: usize, access: i32) -> OsResult<()> {
    // SAFETY: the caller's promise.
    checked(unsafe { libc::syscall(libc::SYS_mprotect, start, bytes, access as usize) }).map(drop)
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
