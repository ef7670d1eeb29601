//! The functions that programs call: each works like the C library's, and records the call.

use crate::file::{is_open, now_ns};
use crate::glibc::{
    __libc_calloc, __libc_free, __libc_malloc, __libc_memalign, __libc_realloc, usable_size,
};
use crate::thread::note;
use quarry_trace::Call;
use std::ffi::{c_int, c_void};

const PAGE: usize = 4096;

#[inline]
fn allocated(block: *mut c_void, size: usize, align: usize, zeroed: bool) -> *mut c_void {
    if !block.is_null() && is_open() {
        let align_shift = align.checked_ilog2().unwrap_or(0) as u8;
        let (address, size) = (block as u64, size as u64);
        note(now_ns(), Call::Alloc { address, size, align_shift, zeroed });
    }
    block
}

/// See malloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: any size will do.
    allocated(unsafe { __libc_malloc(size) }, size, 0, false)
}

/// See calloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: any sizes will do; glibc refuses a product that is too large.
    allocated(unsafe { __libc_calloc(count, size) }, count.wrapping_mul(size), 0, true)
}

/// See free(3).
///
/// # Safety
/// The block is null or in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if !block.is_null() && is_open() {
        note(now_ns(), Call::Free { address: block as u64 });
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { __libc_free(block) };
}

/// See realloc(3).
///
/// # Safety
/// The block is null or in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(size);
    }
    if size == 0 {
        // glibc frees the block and returns null.
        // SAFETY: the caller's promise is passed on.
        unsafe { free(block) };
        return std::ptr::null_mut();
    }
    let (old, start) = (block as u64, now_ns());
    // SAFETY: the caller's promise is passed on.
    let moved = unsafe { __libc_realloc(block, size) };
    if !moved.is_null() && is_open() {
        let took_ns = now_ns().saturating_sub(start);
        note(start, Call::Resize { old, address: moved as u64, size: size as u64, took_ns });
    }
    moved
}

/// See reallocarray(3).
///
/// # Safety
/// The block is null or in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's promise is passed on.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => {
            // SAFETY: errno is the calling thread's own.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            std::ptr::null_mut()
        }
    }
}

/// See `memalign(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    // SAFETY: glibc takes any alignment and rounds it.
    allocated(unsafe { __libc_memalign(align, size) }, size, align, false)
}

/// See `aligned_alloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    memalign(align, size)
}

/// See valloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    memalign(PAGE, size)
}

/// See pvalloc(3).
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    memalign(PAGE, size.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX))
}

/// See `posix_memalign(3)`.
///
/// # Safety
/// `to` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let block = memalign(align, size);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller promises that `to` is writable.
    unsafe { to.write(block) };
    0
}

/// See `malloc_usable_size(3)`. A linked allocator's own function would not know glibc's blocks.
///
/// # Safety
/// The block is null or in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: the caller's promise is passed on.
    unsafe { usable_size(block) }
}
