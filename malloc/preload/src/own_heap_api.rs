//! Heaps of the program, for C. The documentation in this file also becomes that of `quarry.h`.

use crate::abi::null;
use crate::heap_api::refused;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{NonNull, null_mut, without_provenance_mut};
use quarry::process::{self, usable_size};
use quarry::{GroupId, RawHeap};
use quarry_mm::stack::MIN_ALIGN;
use quarry_sys::errno;

/// A heap of the program. It is a number in disguise, never an address.
#[repr(C)]
pub struct QuarryHeap {
    _private: [u8; 0],
}

/// The counts of a heap, in bytes unless a field says otherwise.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct QuarryHeapStats {
    /// Objects in use, each rounded up to the size of its class.
    pub used: usize,
    /// The pages that the heap has.
    pub charged: usize,
    /// The maximum of charged; SIZE_MAX without a limit.
    pub limit: usize,
    /// Number of objects that were handed out.
    pub allocs: usize,
    /// Number of objects that were given back, or went with a reset.
    pub frees: usize,
    /// Number of requests that the limit refused.
    pub refused: usize,
}

/// The heap with this handle; on `None`, it is NULL, and errno is EINVAL.
fn given(heap: *mut QuarryHeap) -> Option<RawHeap> {
    let given = RawHeap::of_handle(heap.addr());
    if given.is_none() {
        errno::set(libc::EINVAL);
    }
    given
}

fn answer(object: Option<NonNull<u8>>) -> *mut c_void {
    object.map_or_else(|| null(libc::ENOMEM), |object| object.as_ptr().cast())
}

fn limit_of(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

/// Creates a heap: memory that goes at once, and whose amount is bounded. Any thread may use it.
/// Its objects share no page with those of another heap. free, realloc, malloc_usable_size and
/// their relatives serve them like all other memory, on any thread; realloc leaves an object in its
/// heap. The pages of the heap take at most limit bytes, rounded down to 4 KiB, at least one page;
/// 0 or SIZE_MAX: no limit. The first 32 bytes of the name are kept.
///
/// A heap without objects takes less than 1 KiB, and 4 KiB for each size of objects in use.
///
/// Every use of a heap that was destroyed prints a line with its name and aborts, and so does a
/// free of its memory until that memory serves again.
///
/// Returns NULL with EINVAL (a name that is NULL or not UTF-8), ENOMEM, or ENOTSUP if
/// QUARRY_DISABLE=1. The other functions return NULL, 0 or -1 with EINVAL if the heap is NULL.
///
/// # Safety
/// The name ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_heap_create(name: *const c_char, limit: usize) -> *mut QuarryHeap {
    // SAFETY: the caller's promise is passed on.
    unsafe { quarry_heap_create_in(0, name, limit) }
}

/// Same as quarry_heap_create, in a group, which is charged for the pages of the heap, too; 0: in
/// none. Fails with EINVAL if there is no such group.
///
/// # Safety
/// The name ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_heap_create_in(
    group: c_int,
    name: *const c_char,
    limit: usize,
) -> *mut QuarryHeap {
    // SAFETY: the caller's promise is passed on.
    let name = unsafe { text(name) };
    let (Ok(group), Some(name)) = (u16::try_from(group), name) else {
        return null(libc::EINVAL);
    };
    match RawHeap::create(GroupId(group), name, limit_of(limit)) {
        Ok(heap) => without_provenance_mut(heap.handle()),
        Err(error) => null(error.errno()),
    }
}

/// The text of a name; `None` if it is NULL or not UTF-8.
///
/// # Safety
/// The name is NULL or ends with a NUL.
pub(crate) unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    // SAFETY: the caller's promise.
    if name.is_null() { None } else { unsafe { CStr::from_ptr(name) }.to_str().ok() }
}

/// Copies the first `bytes` bytes of a struct to `out`; programs with an older quarry.h know fewer.
/// Returns 0, or -1 with EINVAL if `out` is NULL.
///
/// # Safety
/// `out` is NULL or has room for `bytes` bytes; the struct has no padding.
pub(crate) unsafe fn copy_out<T>(counts: &T, out: *mut T, bytes: usize) -> c_int {
    if out.is_null() {
        return refused(libc::EINVAL);
    }
    let bytes = bytes.min(size_of::<T>());
    // SAFETY: `out` has room for this many bytes (caller's promise), and the struct is no shorter.
    unsafe { core::ptr::copy_nonoverlapping((&raw const *counts).cast::<u8>(), out.cast(), bytes) };
    0
}

/// malloc in a heap. Returns NULL with ENOMEM if the limit of the heap is reached, also after
/// quarry_heap_on_pressure's function was called, or if there is no memory.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_heap_malloc(heap: *mut QuarryHeap, size: usize) -> *mut c_void {
    let Some(heap) = given(heap) else { return null_mut() };
    answer(heap.alloc(size, MIN_ALIGN, "quarry_heap_malloc"))
}

/// calloc in a heap. Fails like quarry_heap_malloc, and if the product overflows.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_heap_calloc(
    heap: *mut QuarryHeap,
    count: usize,
    size: usize,
) -> *mut c_void {
    let Some(heap) = given(heap) else { return null_mut() };
    let Some(bytes) = count.checked_mul(size) else { return null(libc::ENOMEM) };
    answer(heap.alloc_zeroed(bytes, MIN_ALIGN, "quarry_heap_calloc"))
}

/// aligned_alloc in a heap. Fails like quarry_heap_malloc, and with EINVAL for an alignment that is
/// no power of two.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_heap_aligned_alloc(
    heap: *mut QuarryHeap,
    align: usize,
    size: usize,
) -> *mut c_void {
    let Some(heap) = given(heap) else { return null_mut() };
    if !align.is_power_of_two() {
        return null(libc::EINVAL);
    }
    answer(heap.alloc(size, align, "quarry_heap_aligned_alloc"))
}

/// realloc into a heap: an object of another heap, or of malloc, moves. With NULL this is
/// quarry_heap_malloc, with a size of 0 it is free. If it fails, like quarry_heap_malloc, the
/// object is unchanged.
///
/// # Safety
/// `pointer` is NULL or an object in use, which is not used any more if this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_heap_realloc(
    heap: *mut QuarryHeap,
    pointer: *mut c_void,
    size: usize,
) -> *mut c_void {
    const ENTRY: &str = "quarry_heap_realloc";
    let Some(heap) = given(heap) else { return null_mut() };
    let Some(object) = NonNull::new(pointer.cast::<u8>()) else {
        return answer(heap.alloc(size, MIN_ALIGN, ENTRY));
    };
    if size == 0 {
        // SAFETY: the caller's promise is passed on.
        unsafe { process::free(object) };
        return null_mut();
    }
    if heap.has(object) {
        // SAFETY: the caller's promise is passed on.
        return answer(unsafe { process::realloc_slow(object, size, MIN_ALIGN) });
    }
    let Some(new) = heap.alloc(size, MIN_ALIGN, ENTRY) else { return null(libc::ENOMEM) };
    let old = usable_size(object);
    // SAFETY: both have at least so many bytes; the caller gives up the old one.
    unsafe {
        core::ptr::copy_nonoverlapping(object.as_ptr(), new.as_ptr(), old.min(size));
        process::free(object);
    }
    new.as_ptr().cast()
}

/// Frees all objects of a heap at once, which keeps its pages for further objects.
///
/// # Safety
/// No code uses the objects any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_heap_reset(heap: *mut QuarryHeap) {
    if let Some(heap) = given(heap) {
        // SAFETY: the caller's promise is passed on.
        unsafe { heap.reset("quarry_heap_reset") };
    }
}

/// Frees all objects of a heap at once, and ends it; NULL is ignored.
///
/// # Safety
/// No code uses the objects any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_heap_destroy(heap: *mut QuarryHeap) {
    if let Some(heap) = RawHeap::of_handle(heap.addr()) {
        // SAFETY: the caller's promise is passed on.
        unsafe { heap.destroy("quarry_heap_destroy") };
    }
}

/// Bytes of a heap's objects in use.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_heap_used(heap: *mut QuarryHeap) -> usize {
    given(heap).map_or(0, |heap| heap.stats("quarry_heap_used").used)
}

/// Writes the counts of a heap to the first `bytes` bytes of `out`: programs with an older quarry.h
/// have fewer counts. Returns 0, or -1 with EINVAL.
///
/// # Safety
/// `out` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_heap_stat(
    heap: *mut QuarryHeap,
    out: *mut QuarryHeapStats,
    bytes: usize,
) -> c_int {
    let Some(heap) = given(heap) else { return -1 };
    let stats = heap.stats("quarry_heap_stat");
    let stats = QuarryHeapStats {
        used: stats.used,
        charged: stats.charged,
        limit: stats.limit,
        allocs: stats.allocs as usize,
        frees: stats.frees as usize,
        refused: stats.refused as usize,
    };
    // SAFETY: the caller's promise is passed on; all fields are words.
    unsafe { copy_out(&stats, out, bytes) }
}

/// Changes the limit of a heap, as of quarry_heap_create; its objects stay. Returns 0, or -1 with
/// EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_heap_set_limit(heap: *mut QuarryHeap, limit: usize) -> c_int {
    let Some(heap) = given(heap) else { return -1 };
    heap.set_limit(limit_of(limit), "quarry_heap_set_limit");
    0
}

/// Sets the function that is called when a request for this many bytes has reached the limit of a
/// heap, on the thread of the request, which then tries once more; NULL: none. The function may
/// call every function, and free or raise the limit. Requests of its own to the heap fail at the
/// limit. Returns 0, or -1 with EINVAL.
///
/// # Safety
/// Any thread may call the function with the context while the heap lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_heap_on_pressure(
    heap: *mut QuarryHeap,
    tell: Option<unsafe extern "C" fn(context: *mut c_void, bytes: usize)>,
    context: *mut c_void,
) -> c_int {
    let Some(heap) = given(heap) else { return -1 };
    // SAFETY: the caller's promise is passed on.
    unsafe { heap.on_pressure(tell, context, "quarry_heap_on_pressure") };
    0
}
