//! The C library's allocator, for `QUARRY_DISABLE=1`.

use core::alloc::Layout;
use quarry_mm::stack::MIN_ALIGN;

pub(crate) fn alloc(layout: Layout) -> *mut u8 {
    if layout.align() <= MIN_ALIGN {
        // SAFETY: malloc has no preconditions; its results are aligned to 16 on 64-bit machines.
        return unsafe { libc::malloc(layout.size()) }.cast();
    }
    let mut pointer = core::ptr::null_mut();
    // SAFETY: `pointer` is writable; the alignment is a power of two of at least a pointer's size.
    let error = unsafe { libc::posix_memalign(&raw mut pointer, layout.align(), layout.size()) };
    if error == 0 { pointer.cast() } else { core::ptr::null_mut() }
}

pub(crate) fn alloc_zeroed(layout: Layout) -> *mut u8 {
    if layout.align() <= MIN_ALIGN {
        // SAFETY: calloc has no preconditions.
        return unsafe { libc::calloc(1, layout.size()) }.cast();
    }
    let pointer = alloc(layout);
    if !pointer.is_null() {
        // SAFETY: the memory is fresh, has `size` bytes, and no other code knows it.
        unsafe { pointer.write_bytes(0, layout.size()) };
    }
    pointer
}

/// Resizes the memory, or returns null and changes nothing.
///
/// # Safety
/// `pointer` came from this module with this layout, and is not used any more if this succeeds.
pub(crate) unsafe fn realloc(pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    if layout.align() <= MIN_ALIGN {
        // SAFETY: the caller's promise is passed on.
        return unsafe { libc::realloc(pointer.cast(), size) }.cast();
    }
    let Ok(wanted) = Layout::from_size_align(size, layout.align()) else {
        return core::ptr::null_mut();
    };
    let moved = alloc(wanted);
    if !moved.is_null() {
        // SAFETY: the allocations differ and have at least this size; the caller gives up the old.
        unsafe {
            core::ptr::copy_nonoverlapping(pointer, moved, size.min(layout.size()));
            libc::free(pointer.cast());
        }
    }
    moved
}

/// # Safety
/// `pointer` came from this module, and its user has given it up.
pub(crate) unsafe fn free(pointer: *mut u8) {
    // SAFETY: the caller's promise is passed on.
    unsafe { libc::free(pointer.cast()) };
}
