//! `dlopen`, without RTLD_DEEPBIND.
//!
//! An object that is opened with that flag looks for every symbol in itself and in what it needs,
//! and there is the C library: it would call the C library's `free` for what the program got from
//! our `malloc`. So where ours is the program's, the flag is cleared, and the object finds what
//! everybody finds.
//!
//! The loader asks its return address who calls, and takes RUNPATH, `$ORIGIN` and the namespace
//! from that object. Therefore the next definition is jumped to, with the stack as it came.

use crate::front;
use crate::libc_malloc::Next;
use core::ffi::{c_char, c_int, c_void};
use quarry::process;
use quarry_sys::errno::KeepErrno;

/// What `dlopen` goes on with; two registers in the calling conventions of all our machines.
#[repr(C)]
struct Onward {
    /// The next definition; null where there is none.
    next: *mut c_void,
    /// The flags for it.
    flags: usize,
}

extern "C" fn onward(_file: *const c_char, flags: c_int) -> Onward {
    static NEXT: Next = Next::new(c"dlopen");
    let mut errno = KeepErrno::new();
    let next = NEXT.address();
    if next.is_null() {
        // A C library before glibc 2.34 has it in libdl.so.2, which nobody has loaded.
        errno.set(libc::ENOSYS);
    }
    let splits = flags & libc::RTLD_DEEPBIND != 0
        && front::malloc_of_another().is_none()
        && !process::allows_deepbind();
    let flags = if splits { flags & !libc::RTLD_DEEPBIND } else { flags };
    Onward { next, flags: flags as u32 as usize }
}

/// As in the C library, without RTLD_DEEPBIND where Quarry serves; see the module.
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

/// As in the C library, without RTLD_DEEPBIND where Quarry serves; see the module.
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
