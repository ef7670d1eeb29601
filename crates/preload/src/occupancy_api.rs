//! Questions of a program about its objects: whether moving one elsewhere would make memory free,
//! and whether all of them are in order. `quarry.h` is made from this file too: documentation that
//! stands here is read there.

use crate::fast_path::{free_within, malloc_within};
use core::ffi::{c_int, c_uint, c_void};
use quarry::process;
use quarry_mm::stack::MIN_ALIGN;
use quarry_sys::errno::KeepErrno;
use quarry_sys::report::warn;

/// Checks every invariant of the heap: returns 0 where all hold; else prints the broken one as a
/// line on standard error and returns -1. Takes milliseconds per gigabyte. Nobody else may use the
/// heap meanwhile: no other thread of the program, and no thread of Quarry's own, which
/// QUARRY_BACKGROUND=0 forbids.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_validate() -> c_int {
    let _errno = KeepErrno::new();
    match process::validate() {
        Ok(()) => 0,
        Err(broken) => {
            warn(format_args!("broken invariant: {broken}"));
            -1
        }
    }
}

/// How full the slab of an object is, beside all slabs for objects of its size. Objects that CPUs
/// hold ready count as in use.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QuarryOccupancy {
    /// Objects of its slab that are in use, itself among them.
    live: c_uint,
    /// Objects of its slab.
    total: c_uint,
    /// 1 where it is worth moving: its slab is one of the emptier ones, and quarry_malloc_dense
    /// would take from another one. A program that moves such objects comes to an end, with few
    /// slabs.
    is_sparse: c_uint,
    /// 1 where no other object in use lies on one of its pages, which can go back without it.
    frees_page: c_uint,
    /// Slabs for objects of this size.
    slabs: usize,
    /// Of these, those that have objects in use and free ones.
    partial_slabs: usize,
    /// Objects in use of those.
    partial_live: usize,
}

/// Says of each of `count` pointers how full its slab is. All figures are 0 for what is no object
/// in use of a slab: NULL, requests above 32 KiB, what is not Quarry's or was freed into its slab;
/// for all under a slab policy that cannot tell (`slub`, `slab`, `slqb`), while checks look at
/// every free (QUARRY_DEBUG, QUARRY_HARDEN), and where QUARRY_DISABLE=1. O(1) each.
///
/// # Safety
/// `pointers` are so many, and `out` has room for so many answers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_occupancy(
    pointers: *const *mut c_void,
    count: usize,
    out: *mut QuarryOccupancy,
) {
    let _errno = KeepErrno::new();
    for number in 0..count {
        // SAFETY: there are so many (caller's promise).
        let pointer = unsafe { *pointers.add(number) };
        let told = process::occupancy(pointer.cast()).unwrap_or_default();
        let occupancy = QuarryOccupancy {
            live: told.live,
            total: told.total,
            is_sparse: told.is_sparse.into(),
            frees_page: told.frees_page.into(),
            slabs: told.slabs as usize,
            partial_slabs: told.partial_slabs as usize,
            partial_live: told.partial_live as usize,
        };
        // SAFETY: there is room for so many (caller's promise).
        unsafe { out.add(number).write(occupancy) };
    }
}

/// As malloc, for an object that moves out of a sparse slab: from the fullest slab that has a free
/// object, past those that CPUs hold, among which is what was freed last. Whether
/// quarry_free_dense or free gives it back is the same.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_malloc_dense(size: usize) -> *mut c_void {
    match process::alloc_dense(size, MIN_ALIGN) {
        Some(object) => object.as_ptr().cast(),
        None => malloc_within(size),
    }
}

/// As free, for an object that has moved: gives it to its slab at once, so that this can become
/// empty.
///
/// # Safety
/// As free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_free_dense(pointer: *mut c_void) {
    // SAFETY: the caller's promise is passed on; what is freed here is not freed again.
    unsafe {
        if !process::free_dense(pointer.cast()) {
            free_within(pointer);
        }
    }
}
