//! C++ operators new and delete in every form of C++17, by their mangled names (Itanium ABI).
//!
//! An operator that has no memory jumps, as a tail call, to the definition of the C++ library,
//! which calls malloc again, runs the new-handler and throws `std::bad_alloc`. The jump leaves no
//! frame of this library on the stack, so no exception ever passes through Rust.
//!
//! For a size above `PTRDIFF_MAX` the jump passes `PTRDIFF_MAX`, which malloc refuses as well: the
//! aligned forms of libstdc++ 12 would round the largest sizes up to 0, and succeed.

use crate::fast_path::{fast_delete, fast_malloc, free_within, new_or_null, new_refused};
use crate::libc_malloc::Next;
use crate::malloc::free_of_size;
use core::ffi::{CStr, c_void};
use quarry::process;
use quarry_mm::stack::{Entry, MIN_ALIGN, Request};
use quarry_sys::report::fatal;

/// `operator new` after the fast path has refused; null if there is no memory.
#[cold]
#[inline(never)]
pub(crate) extern "C" fn new_slow(size: usize) -> *mut c_void {
    process::alloc_on_process(Request::of(size))
        .map_or(core::ptr::null_mut(), |object| object.as_ptr().cast())
}

extern "C" fn new_aligned_or_null(size: usize, align: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        return core::ptr::null_mut();
    }
    process::alloc(Request::of(size).aligned(align))
        .map_or(core::ptr::null_mut(), |object| object.as_ptr().cast())
}

/// C++ libraries that are searched last: if a program in C opens a plugin in C++, the C++ library
/// is only in the plugin's own search order.
const LIBRARIES: [&CStr; 2] = [c"libstdc++.so.6", c"libc++.so.1"];

fn next_definition(next: &Next) -> *mut c_void {
    let address = next.address_or_in(&LIBRARIES);
    if address.is_null() {
        fatal(format_args!("operator new failed and no C++ library is loaded to throw bad_alloc"));
    }
    address
}

/// Defines a function that returns `serve(size, align)`. If that is null, the function jumps to the
/// operator's next definition, with the same arguments but a size of at most `PTRDIFF_MAX`.
macro_rules! or_next {
    ($(#[$attribute:meta])* $name:ident / $symbol:literal => $serve:ident) => {
        extern "C" fn next() -> *mut c_void {
            static NEXT: Next = Next::new($symbol);
            next_definition(&NEXT)
        }

        #[cfg(target_arch = "x86_64")]
        $(#[$attribute])*
        #[unsafe(naked)]
        extern "C" fn $name(size: usize, align: usize) -> *mut c_void {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "call {serve}",
                "test rax, rax",
                "jz 2f",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                "2:",
                ".cfi_adjust_cfa_offset 24",
                "call {next}",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "mov rcx, 0x7fffffffffffffff",
                "cmp rdi, rcx",
                "cmova rdi, rcx",
                "jmp rax",
                ".cfi_endproc",
                serve = sym $serve,
                next = sym next,
            )
        }

        #[cfg(target_arch = "aarch64")]
        $(#[$attribute])*
        #[unsafe(naked)]
        extern "C" fn $name(size: usize, align: usize) -> *mut c_void {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-48]!",
                "stp x0, x1, [sp, #16]",
                "str x2, [sp, #32]",
                "bl {serve}",
                "cbz x0, 2f",
                "ldp x29, x30, [sp], #48",
                "ret",
                "2:",
                "bl {next}",
                "mov x9, x0",
                "ldr x2, [sp, #32]",
                "ldp x0, x1, [sp, #16]",
                "ldp x29, x30, [sp], #48",
                "mov x10, #0x7fffffffffffffff",
                "cmp x0, x10",
                "csel x0, x10, x0, hi",
                "br x9",
                serve = sym $serve,
                next = sym next,
            )
        }
    };
}

/// Defines the operators that C++ programs call most: the fast path, without a stack frame.
macro_rules! operator_new_fast {
    ($($name:ident / $symbol:literal;)*) => {
        $(
            const _: () = {
                or_next! { refused / $symbol => new_refused }
                fast_malloc! {
                    /// A C++ operator new; see the head of this file.
                    #[unsafe(no_mangle)]
                    $name, refused
                }
            };
        )*
    };
}

operator_new_fast! {
    _Znwm / c"_Znwm";
    _Znam / c"_Znam";
}

/// Defines the other operators.
macro_rules! operator_new {
    ($($name:ident / $symbol:literal => $serve:ident;)*) => {
        $(
            const _: () = {
                or_next! {
                    /// A C++ operator new; see the head of this file.
                    #[unsafe(no_mangle)]
                    $name / $symbol => $serve
                }
            };
        )*
    };
}

operator_new! {
    _ZnwmRKSt9nothrow_t / c"_ZnwmRKSt9nothrow_t" => new_or_null;
    _ZnamRKSt9nothrow_t / c"_ZnamRKSt9nothrow_t" => new_or_null;
    _ZnwmSt11align_val_t / c"_ZnwmSt11align_val_t" => new_aligned_or_null;
    _ZnamSt11align_val_t / c"_ZnamSt11align_val_t" => new_aligned_or_null;
    _ZnwmSt11align_val_tRKSt9nothrow_t / c"_ZnwmSt11align_val_tRKSt9nothrow_t"
        => new_aligned_or_null;
    _ZnamSt11align_val_tRKSt9nothrow_t / c"_ZnamSt11align_val_tRKSt9nothrow_t"
        => new_aligned_or_null;
}

/// Defines operators delete without a size. They ignore further arguments (alignment, nothrow).
macro_rules! operator_delete {
    ($($name:ident)*) => {
        $(
            /// A C++ operator delete.
            ///
            /// # Safety
            /// Same as `free`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(pointer: *mut c_void) {
                // SAFETY: the caller's promise is passed on.
                unsafe { free_within(pointer) };
            }
        )*
    };
}

operator_delete! {
    _ZdlPv _ZdaPv
    _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
    _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t
}

fast_delete! {
    /// C++14 `operator delete(void*, std::size_t)`.
    #[unsafe(no_mangle)]
    _ZdlPvm, delete_slow
}

fast_delete! {
    /// C++14 `operator delete[](void*, std::size_t)`.
    #[unsafe(no_mangle)]
    _ZdaPvm, delete_slow
}

/// `operator delete` with a size, after the fast path has refused: for a large block, or for an
/// object of a size class that does not match `size`.
///
/// # Safety
/// Same as `free`.
#[cold]
#[inline(never)]
unsafe extern "C" fn delete_slow(pointer: *mut c_void, size: usize) {
    // SAFETY: the caller's promise is passed on.
    unsafe { free_of_size(Entry::Delete, pointer, size, MIN_ALIGN) };
}

/// Defines operators delete with a size and an alignment.
macro_rules! operator_delete_aligned {
    ($($name:ident)*) => {
        $(
            /// A C++17 operator delete.
            ///
            /// # Safety
            /// Same as `free`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(pointer: *mut c_void, size: usize, align: usize) {
                // SAFETY: the caller's promise is passed on.
                unsafe { free_of_size(Entry::Delete, pointer, size, align) };
            }
        )*
    };
}

operator_delete_aligned! {
    _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t
}
