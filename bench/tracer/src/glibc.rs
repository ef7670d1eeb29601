//! The allocator that serves the calls: glibc's own, even if the program links another one.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    pub(crate) fn __libc_malloc(size: usize) -> *mut c_void;
    pub(crate) fn __libc_free(block: *mut c_void);
    pub(crate) fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    pub(crate) fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub(crate) fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
}

/// glibc's `malloc_usable_size`, which has no `__libc_` name.
static USABLE_SIZE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Finds [`USABLE_SIZE`], before the program begins.
pub(crate) fn find() {
    const LOADED: c_int = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
    // SAFETY: names end with a NUL. The C library is loaded, so this opens no file.
    let found = unsafe {
        let library = libc::dlopen(c"libc.so.6".as_ptr(), LOADED);
        if library.is_null() {
            return;
        }
        libc::dlsym(library, c"malloc_usable_size".as_ptr())
    };
    USABLE_SIZE.store(found, Ordering::Release);
}

/// The bytes of a block; 0 if glibc's function was not found.
///
/// # Safety
/// The block is null, or glibc's and in use.
pub(crate) unsafe fn usable_size(block: *mut c_void) -> usize {
    let found = USABLE_SIZE.load(Ordering::Acquire);
    // SAFETY: `find` stored glibc's function of this name and type, or null, and null is `None`.
    let function: Option<unsafe extern "C" fn(*mut c_void) -> usize> =
        unsafe { std::mem::transmute(found) };
    // SAFETY: the caller's promise is passed on.
    function.map_or(0, |function| unsafe { function(block) })
}
