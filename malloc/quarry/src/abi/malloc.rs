//! `malloc`, `free` and their relatives, with the errors of POSIX and the behaviour of glibc 2.36.

use crate::abi::fast_path::{free_within, malloc_within};
use crate::abi::front::is_any_replaced;
use crate::abi::libc_malloc;
use crate::abi::null;
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use quarry::process::{self, Mode, STACK, ensure_ready, free_inside, free_watched};
use quarry_mm::heap::LARGEST_REQUEST;
use quarry_mm::stack::{Entry, MIN_ALIGN, NotFreed, Request};
use quarry_sys::bound_address;
use quarry_sys::errno::KeepErrno;
use quarry_sys::os::{Linux, Os};
use quarry_sys::percpu::Object;

fn raw(object: Option<Object>) -> *mut c_void {
    object.map_or_else(out_of_memory, |object| object.as_ptr().cast())
}

#[cold]
fn out_of_memory() -> *mut c_void {
    null(libc::ENOMEM)
}

/// Returns Quarry's object, or calls `forward` if the C library serves the process.
fn served(result: Option<Object>, forward: impl FnOnce() -> *mut c_void) -> *mut c_void {
    if result.is_none() && ensure_ready() == Mode::Disabled {
        return forward();
    }
    raw(result)
}

/// `malloc` after the fast path has refused.
#[cold]
#[inline(never)]
pub(crate) extern "C" fn malloc_slow(size: usize) -> *mut c_void {
    if let Some(object) = process::alloc_at_hand(size) {
        return object.as_ptr().cast();
    }
    #[cfg(feature = "override")]
    libc_malloc::look_for_another();
    // SAFETY: malloc has no preconditions.
    served(process::alloc_on_process(Request::of(size)), || unsafe { libc_malloc::malloc(size) })
}

/// `free` after the fast path has refused a pointer as [`NotFreed::Outside`]: null, the C library's
/// or a foreign one, or any pointer while the fast path is closed.
///
/// # Safety
/// Same as [`free`].
#[cold]
#[inline(never)]
pub(crate) unsafe extern "C" fn free_outside(pointer: *mut c_void) {
    let Some(object) = Object::new(pointer.cast()) else { return };
    // SAFETY: the caller's promise is passed on.
    if unsafe { free_watched(object) } {
        return;
    }
    let _errno = KeepErrno::new();
    if ensure_ready() == Mode::Disabled {
        // SAFETY: with Quarry disabled from the first request on, the pointer is the C library's.
        return unsafe { libc_malloc::free(pointer) };
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { free_inside(object, NotFreed::Outside) };
}

/// The historical name of `free`.
///
/// # Safety
/// Same as [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(pointer: *mut c_void) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        if is_any_replaced() {
            free_in_front(pointer);
        } else {
            free_within(pointer);
        }
    }
}

/// Calls the `free` of the object in front of this library.
///
/// # Safety
/// Same as [`free`].
#[cold]
unsafe fn free_in_front(pointer: *mut c_void) {
    let free = bound_address!("free");
    // SAFETY: this library or one in front of it defines the function, with the C prototype; the
    // rest is the caller's promise.
    unsafe { transmute::<usize, unsafe extern "C" fn(*mut c_void)>(free)(pointer) };
}

/// `free_sized` of C23, 7.24.3.4: `size` is that of the last request. A `realloc` to a smaller size
/// may have left the larger object in place, so only an object smaller than `size` is an error.
///
/// # Safety
/// Same as [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(pointer: *mut c_void, size: usize) {
    if !STACK.fast.was_asked(pointer.cast(), size) {
        if is_any_replaced() {
            // SAFETY: the caller's promise is passed on.
            return unsafe { free_in_front(pointer) };
        }
        demand(pointer, |object| STACK.demand(Entry::FreeSized, object, size, None));
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { free_within(pointer) };
}

/// `free_aligned_sized` of C23, 7.24.3.5: with the arguments that `aligned_alloc` got.
///
/// # Safety
/// Same as [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(pointer: *mut c_void, align: usize, size: usize) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        if is_any_replaced() {
            free_in_front(pointer);
        } else {
            free_of_size(Entry::FreeAlignedSized, pointer, size, align);
        }
    }
}

/// Frees the object that was passed to the function `entry`, after a check that a request of `size`
/// bytes at a multiple of `align` gets such an object.
///
/// # Safety
/// Same as [`free`].
pub(crate) unsafe fn free_of_size(entry: Entry, pointer: *mut c_void, size: usize, align: usize) {
    // memalign rounds the alignment up, too.
    let align = align.checked_next_power_of_two().unwrap_or(align);
    demand(pointer, |object| STACK.demand(entry, object, size, Some(align)));
    // SAFETY: the caller's promise is passed on.
    unsafe { free_within(pointer) };
}

/// Checks an object before it is freed, unless Quarry is disabled. Not inlined, so that this
/// function's stack is free again when the caller frees the object.
#[inline(never)]
fn demand(pointer: *mut c_void, look: impl FnOnce(Object)) {
    if let Some(object) = Object::new(pointer.cast())
        && ensure_ready() != Mode::Disabled
    {
        look(object);
    }
}

#[cold]
#[inline(never)]
pub(crate) extern "C" fn calloc_slow(count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else { return out_of_memory() };
    #[cfg(feature = "override")]
    libc_malloc::look_for_another();
    // SAFETY: calloc has no preconditions.
    served(process::alloc_on_process(Request::of(bytes).zeroed()), || unsafe {
        libc_malloc::calloc(count, size)
    })
}

/// `calloc` of C11, 7.22.3.2: zeroed memory for `count` objects; overflow is ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size).and_then(process::alloc_zeroed_fast) {
        Some(object) => object.as_ptr().cast(),
        None => calloc_slow(count, size),
    }
}

/// # Safety
/// Same as [`realloc`].
#[cold]
#[inline(never)]
unsafe fn realloc_slow(object: Object, size: usize) -> *mut c_void {
    if size == 0 && ensure_ready() != Mode::Disabled {
        // SAFETY: the caller's promise is passed on.
        unsafe { free_within(object.as_ptr().cast()) };
        return core::ptr::null_mut();
    }
    served(
        // SAFETY: the caller's promise is passed on.
        unsafe { process::realloc_slow(object, size, MIN_ALIGN) },
        // SAFETY: with Quarry disabled the object is the C library's.
        || unsafe { libc_malloc::realloc(object.as_ptr().cast(), size) },
    )
}

/// `realloc` of C11, 7.22.3.5. As in glibc, `realloc(p, 0)` frees `p` and returns null, and with a
/// null `pointer` this is `malloc`. On failure the old block is unchanged.
///
/// # Safety
/// `pointer` is null or came from this allocator, and is not used any more if this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    let Some(object) = Object::new(pointer.cast()) else { return malloc_within(size) };
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match process::realloc_fast(object, size) {
            Some(resized) => resized.as_ptr().cast(),
            None => realloc_slow(object, size),
        }
    }
}

/// `realloc` of `count * size` bytes; overflow is ENOMEM and keeps the block (glibc 2.26).
///
/// # Safety
/// Same as [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    pointer: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
    let realloc = bound_address!("realloc");
    match count.checked_mul(size) {
        // SAFETY: this library or one in front of it defines the function, with the C prototype;
        // the rest is the caller's promise.
        Some(bytes) => unsafe { transmute::<usize, Realloc>(realloc)(pointer, bytes) },
        None => out_of_memory(),
    }
}

/// [`realloc`] without the fast paths, for callers in this library: a call of an exported name goes
/// to what stands in front of this library. (The other such functions are not inlined: else the
/// compiler makes one function, the exported one, of two with the same instructions.)
///
/// # Safety
/// Same as [`realloc`].
pub(crate) unsafe extern "C" fn realloc_within(pointer: *mut c_void, size: usize) -> *mut c_void {
    match Object::new(pointer.cast()) {
        // SAFETY: the caller's promise is passed on.
        Some(object) => unsafe { realloc_slow(object, size) },
        None => malloc_within(size),
    }
}

fn aligned(align: usize, size: usize) -> *mut c_void {
    if size > LARGEST_REQUEST || align > LARGEST_REQUEST {
        return out_of_memory();
    }
    #[cfg(feature = "override")]
    libc_malloc::look_for_another();
    // SAFETY: memalign has no preconditions.
    served(process::alloc(Request::of(size).aligned(align)), || unsafe {
        libc_malloc::memalign(align, size)
    })
}

/// `memalign`. As in glibc, an alignment that is no power of two is rounded up to one.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    memalign_within(align, size)
}

#[inline(never)]
pub(crate) extern "C" fn memalign_within(align: usize, size: usize) -> *mut c_void {
    match align.max(1).checked_next_power_of_two() {
        Some(align) => aligned(align, size),
        None => null(libc::EINVAL),
    }
}

/// `aligned_alloc` of C11, 7.22.3.1: an alignment that is not a power of two is EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if align.is_power_of_two() {
        return aligned(align, size);
    }
    null(libc::EINVAL)
}

/// `posix_memalign`: returns the error; keeps `*out` on failure, and always keeps `errno`.
///
/// # Safety
/// `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let _errno = KeepErrno::new();
    let pointer = aligned(align, size);
    if pointer.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { out.write(pointer) };
    0
}

/// `size` bytes at a multiple of the page size.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    valloc_within(size)
}

#[inline(never)]
pub(crate) extern "C" fn valloc_within(size: usize) -> *mut c_void {
    aligned(Linux.page_size(), size)
}

/// `size` bytes, rounded up to whole pages, at a multiple of the page size.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    pvalloc_within(size)
}

#[inline(never)]
pub(crate) extern "C" fn pvalloc_within(size: usize) -> *mut c_void {
    let page = Linux.page_size();
    match size.checked_next_multiple_of(page) {
        Some(bytes) => aligned(page, bytes),
        None => out_of_memory(),
    }
}

/// # Safety
/// Same as [`malloc_usable_size`].
#[cold]
#[inline(never)]
unsafe fn usable_size_slow(pointer: *mut c_void) -> usize {
    let Some(object) = Object::new(pointer.cast()) else { return 0 };
    if ensure_ready() == Mode::Disabled {
        // SAFETY: with Quarry disabled the pointer is the C library's.
        return unsafe { libc_malloc::malloc_usable_size(pointer) };
    }
    process::usable_size(object)
}

/// Bytes that may be used at `pointer`, 0 for null.
///
/// # Safety
/// `pointer` is null or came from this allocator; other pointers abort with one line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(pointer: *mut c_void) -> usize {
    match Object::new(pointer.cast()).and_then(|object| STACK.fast.usable(object)) {
        Some(bytes) => bytes,
        // SAFETY: the caller's promise is passed on.
        None => unsafe { usable_size_slow(pointer) },
    }
}
