//! Functions by which a program learns whether moving an object would free memory, and whether the
//! heap is consistent. The documentation in this file also becomes that of `quarry.h`.

use crate::jemalloc_api::{NO_CACHE, dallocx, mallocx};
use core::ffi::{c_int, c_uint, c_void};
use quarry::Quarry;
use quarry_sys::errno::KeepErrno;
use quarry_sys::report::warn;

/// Checks every invariant of the heap: returns 0 if all hold; otherwise prints the broken invariant
/// as a line on standard error and returns -1. Takes milliseconds per gigabyte. No other thread may
/// use the heap during the call: neither a thread of the program, nor Quarry's background thread,
/// which QUARRY_BACKGROUND=0 switches off.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_validate() -> c_int {
    let _errno = KeepErrno::new();
    match Quarry::validate() {
        Ok(()) => 0,
        Err(broken) => {
            warn(format_args!("broken invariant: {broken}"));
            -1
        }
    }
}

/// How full the slab of an object is, and how full all slabs for objects of its size are. Free
/// objects that CPUs keep for later requests count as in use.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QuarryOccupancy {
    /// Objects in use in the slab, including the object itself.
    live: c_uint,
    /// Number of objects that the slab has.
    total: c_uint,
    /// 1 if the object is worth moving: its slab is one of the emptier slabs, and
    /// quarry_malloc_dense would take from another slab. A program that moves such objects ends
    /// with few slabs.
    is_sparse: c_uint,
    /// 1 if no other object on one of its pages is in use, so that freeing it frees that page.
    frees_page: c_uint,
    /// Slabs for objects of this size.
    slabs: usize,
    /// Slabs for objects of this size with both objects in use and free objects.
    partial_slabs: usize,
    /// Objects in use in the partial slabs.
    partial_live: usize,
}

/// Reports for each of `count` pointers how full its slab is. All figures are 0 for a pointer that
/// is no object in use in a slab: NULL, a request above 32 KiB, memory that is not Quarry's or was
/// freed into its slab. For all pointers they are 0 under a slab policy without such figures
/// (`slub`, `slab`, `slqb`), while each free is checked (QUARRY_DEBUG, QUARRY_HARDEN), and if
/// QUARRY_DISABLE=1. O(1) each.
///
/// # Safety
/// `pointers` has `count` pointers, and `out` has room for `count` answers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_occupancy(
    pointers: *const *mut c_void,
    count: usize,
    out: *mut QuarryOccupancy,
) {
    let _errno = KeepErrno::new();
    for number in 0..count {
        // SAFETY: there are `count` pointers (caller's promise).
        let pointer = unsafe { *pointers.add(number) };
        let told = Quarry::occupancy(pointer.cast()).unwrap_or_default();
        let occupancy = QuarryOccupancy {
            live: told.live,
            total: told.total,
            is_sparse: told.is_sparse.into(),
            frees_page: told.frees_page.into(),
            slabs: told.slabs as usize,
            partial_slabs: told.partial_slabs as usize,
            partial_live: told.partial_live as usize,
        };
        // SAFETY: there is room for `count` answers (caller's promise).
        unsafe { out.add(number).write(occupancy) };
    }
}

/// Like malloc, for an object that moves out of a sparse slab: takes memory from the fullest slab
/// that has a free object, not from the objects that CPUs hold, which include those freed last.
/// Both quarry_free_dense and free may free it.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_malloc_dense(size: usize) -> *mut c_void {
    mallocx(size, NO_CACHE)
}

/// Like free, for the old memory of a moved object: returns it to its slab at once, so that the
/// slab can become empty.
///
/// # Safety
/// Same as free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_free_dense(pointer: *mut c_void) {
    // SAFETY: the caller's promise is passed on.
    unsafe { dallocx(pointer, NO_CACHE) };
}
