//! `dlopen`, without RTLD_DEEPBIND.
//!
//! A shared object that is opened with that flag looks up every symbol first in itself and in those
//! that it needs, including the C library. So it would call the C library's `free` for blocks of
//! this library. Therefore, if Quarry is the program's `malloc`, or a tool before it is, `dlopen`
//! clears the flag, and the shared object gets the same functions as all others.
//!
//! The loader identifies the caller of `dlopen` by the return address, and takes RUNPATH, `$ORIGIN`
//! and the namespace from the shared object around it. Therefore this `dlopen` does not call the
//! next definition but jumps to it, with the stack unchanged.

use crate::abi::front;
use crate::abi::libc_malloc::Next;
use core::ffi::{c_char, c_int, c_void};
use quarry::process;
use quarry_sys::errno::KeepErrno;

/// The next `dlopen` and the flags to pass to it, returned in two registers.
#[repr(C)]
struct Onward {
    /// The next definition of `dlopen`, or null.
    next: *mut c_void,
    flags: usize,
}

extern "C" fn onward(_file: *const c_char, flags: c_int) -> Onward {
    static NEXT: Next = Next::new(c"dlopen");
    let mut errno = KeepErrno::new();
    let next = NEXT.address();
    if next.is_null() {
        // Before glibc 2.34 `dlopen` is in libdl.so.2, which may not be loaded.
        errno.set(libc::ENOSYS);
    }
    let splits = flags & libc::RTLD_DEEPBIND != 0
        && front::malloc_of_another().is_none_or(|owner| !owner.is_program)
        && !process::allows_deepbind();
    let flags = if splits { flags & !libc::RTLD_DEEPBIND } else { flags };
    Onward { next, flags: flags as u32 as usize }
}

/// Like the C library's, but clears RTLD_DEEPBIND if Quarry serves; see the head of this file.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "call {onward}",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "test rax, rax",
        "jz 2f",
        "mov esi, edx",
        "jmp rax",
        "2:",
        "ret",
        ".cfi_endproc",
        onward = sym onward,
    )
}

/// Like the C library's, but clears RTLD_DEEPBIND if Quarry serves; see the head of this file.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "str x0, [sp, #16]",
        "bl {onward}",
        "mov x16, x0",
        "ldr x0, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "cbz x16, 2f",
        "br x16",
        "2:",
        "mov x0, xzr",
        "ret",
        onward = sym onward,
    )
}
