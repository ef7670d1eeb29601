//! The C functions of gperftools' `MallocExtension` that have an equal here (its header
//! `malloc_extension_c.h`, 2.10).

use crate::abi::malloc::malloc_usable_size;
use crate::jemalloc_api::{mallctl, nallocx};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null;
use quarry::Quarry;
use quarry_sys::errno::KeepErrno;

/// Stores a figure of the heap by its name. Returns 1, or 0 for a name without an equal here.
///
/// # Safety
/// `name` is a string, and `value` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MallocExtension_GetNumericProperty(
    name: *const c_char,
    value: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise, and `value` has as many bytes as a figure.
    let error = unsafe { mallctl(name, value.cast(), &mut size_of::<usize>(), null(), 0) };
    c_int::from(error == 0)
}

/// Gives free memory back to the system, as malloc_trim does.
#[unsafe(no_mangle)]
pub extern "C" fn MallocExtension_ReleaseFreeMemory() {
    let _errno = KeepErrno::new();
    let _ = Quarry::trim();
}

/// As `MallocExtension_ReleaseFreeMemory`, also if it is more than `bytes`.
#[unsafe(no_mangle)]
pub extern "C" fn MallocExtension_ReleaseToSystem(_bytes: isize) {
    MallocExtension_ReleaseFreeMemory();
}

/// Usable bytes of a request, as `nallocx` says.
#[unsafe(no_mangle)]
pub extern "C" fn MallocExtension_GetEstimatedAllocatedSize(size: usize) -> usize {
    nallocx(size, 0)
}

/// Usable bytes.
///
/// # Safety
/// Same as malloc_usable_size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MallocExtension_GetAllocatedSize(pointer: *const c_void) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe { malloc_usable_size(pointer.cast_mut()) }
}
