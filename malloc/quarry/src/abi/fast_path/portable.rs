//! `malloc` and `free` for every architecture and policy: the stack's fast paths, inlined. On
//! aarch64 they contain restartable sequences too; the compiler chooses the registers around them.

use crate::abi::cxx::new_slow;
use crate::abi::malloc::{free_outside, malloc_slow};
use core::ffi::c_void;
use quarry::process::{STACK, free_refused};
use quarry_mm::stack::NotFreed;
use quarry_sys::percpu::Object;

/// `malloc` of C11, 7.22.3.4.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    match STACK.fast.alloc(size) {
        Some(object) => object.as_ptr().cast(),
        None => malloc_slow(size),
    }
}

/// `malloc` for callers in this library.
pub(crate) extern "C" fn malloc_within(size: usize) -> *mut c_void {
    malloc(size)
}

/// The entry of `operator new`: jumps to `slow`, which does all the work.
macro_rules! fast_malloc {
    ($(#[$attribute:meta])* $name:ident, $slow:ident, $end:ident) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub extern "C" fn $name(size: usize) -> *mut c_void {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("jmp {slow}", slow = sym $slow);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("b {slow}", slow = sym $slow);
        }
    };
}
pub(crate) use fast_malloc;

pub(crate) use new_or_null as new_refused;

/// The allocation for `operator new`; null if there is no memory, or if another object must serve.
pub(crate) extern "C" fn new_or_null(size: usize) -> *mut c_void {
    match STACK.fast.alloc_new(size) {
        Some(object) => object.as_ptr().cast(),
        None => new_slow(size),
    }
}

/// `free` of C11, 7.22.3.3. A null pointer is ignored; `errno` does not change.
///
/// # Safety
/// `pointer` came from this allocator and is not used any more; other pointers abort with one line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(pointer: *mut c_void) {
    // A null pointer is outside the window, so the fast path refuses it.
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match STACK.fast.free(pointer.cast()) {
            Ok(()) => {}
            Err(NotFreed::Outside) => free_outside(pointer),
            Err(why) => free_refused(Object::new_unchecked(pointer.cast()), why),
        }
    }
}

/// Defines a sized `operator delete`, called `$name`. A block that `malloc(size)` would not give on
/// the fast path goes to `$slow`.
macro_rules! fast_delete {
    ($(#[$attribute:meta])* $name:ident, $slow:ident) => {
        $(#[$attribute])*
        ///
        /// # Safety
        /// Same as `free`.
        pub unsafe extern "C" fn $name(pointer: *mut core::ffi::c_void, size: usize) {
            // SAFETY: the caller's promise is passed on.
            unsafe {
                if quarry::process::STACK.fast.was_asked(pointer.cast(), size) {
                    $crate::abi::fast_path::free_within(pointer);
                } else {
                    $slow(pointer, size);
                }
            }
        }
    };
}
pub(crate) use fast_delete;

/// Defines `operator delete` without a size: `free`, which `$slow` does if the fast path refuses.
macro_rules! fast_delete_unsized {
    ($(#[$attribute:meta])* $name:ident, $slow:ident) => {
        $(#[$attribute])*
        ///
        /// # Safety
        /// Same as `free`.
        pub unsafe extern "C" fn $name(pointer: *mut core::ffi::c_void) {
            // SAFETY: the caller's promise is passed on.
            unsafe {
                use quarry_mm::stack::NotFreed::{Duplicate, Full};
                match quarry::process::STACK.fast.delete(pointer.cast()) {
                    Ok(()) => {}
                    Err(why @ (Full(_) | Duplicate(_))) => {
                        let object = quarry_sys::percpu::Object::new_unchecked(pointer.cast());
                        quarry::process::free_refused(object, why);
                    }
                    Err(_) => $slow(pointer, 0),
                }
            }
        }
    };
}
pub(crate) use fast_delete_unsized;

/// `free` for callers in this library.
///
/// # Safety
/// Same as [`free`].
pub(crate) unsafe extern "C" fn free_within(pointer: *mut c_void) {
    // SAFETY: the caller's promise is passed on.
    unsafe { free(pointer) };
}
