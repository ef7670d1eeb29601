//! Caches of objects, and pages, for C. The documentation here also becomes that of `quarry.h`.

use crate::abi::null;
use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut, without_provenance_mut};
use quarry::process::{Mode, ensure_ready};
use quarry::{
    CacheOptions, CacheParams, Constructor, PageFlags, RawCache, RawReserve, alloc_pages,
    free_pages,
};
use quarry_sys::errno;
use quarry_sys::report::{fatal, warn};

/// Of quarry_cache_create: objects share as few cache lines as possible (SLAB_HWCACHE_ALIGN).
pub const QUARRY_HWCACHE_ALIGN: c_uint = 1;
/// Of quarry_cache_create: the cache shares its slabs with no other cache, under any slab policy
/// (SLAB_NO_MERGE).
pub const QUARRY_NO_MERGE: c_uint = 2;

/// Of requests for objects and pages: all bytes are 0 (__GFP_ZERO). Not for objects of a cache with
/// a constructor.
pub const QUARRY_ZERO: c_uint = 1;
/// Of requests for pages: the caller cannot wait (GFP_ATOMIC). The request may use the reserve, but
/// reclaims nothing, and the heap does not grow.
pub const QUARRY_ATOMIC: c_uint = 2;

/// A cache of objects of one size. It is a number in disguise, never an address. No thread may
/// destroy it while another thread uses it.
#[repr(C)]
pub struct QuarryCache {
    _private: [u8; 0],
}

/// Objects of a cache that were taken in advance.
#[repr(C)]
pub struct QuarryReserve {
    _private: [u8; 0],
}

/// The largest order of blocks: 2 MiB.
const MOST_ORDER: c_uint = 9;

/// The cache with this handle; on `None`, there is none, and errno is EINVAL.
fn found(cache: *mut QuarryCache) -> Option<RawCache> {
    // SAFETY: see `QuarryCache`.
    let found = unsafe { RawCache::of_handle(cache.addr()) };
    if found.is_none() {
        errno::set(libc::EINVAL);
    }
    found
}

/// The cache of a handle. Aborts if there is none: for functions that cannot return an error.
fn demanded(cache: *mut QuarryCache, entry: &str) -> RawCache {
    // SAFETY: see `QuarryCache`.
    unsafe { RawCache::of_handle(cache.addr()) }
        .unwrap_or_else(|| fatal(format_args!("{entry}: {cache:p} is no cache")))
}

/// Creates a cache of objects of `size` bytes, at multiples of `align`: a power of two, or 0, which
/// stands for 16. The first 24 bytes of `name` are its name in statistics.
///
/// A constructor, if any, is called once for each object when a slab for it is made, on any thread
/// that needs the slab. It may call malloc and free, but no function of quarry.h, and must not wait
/// for another thread. Users must free objects in the state in which they got them.
///
/// Only memory bounds the number of caches. CPUs keep objects of 54 of them; each further one takes
/// every object from a slab under a lock, and its first slab has at least 32 KiB.
///
/// Returns NULL with EINVAL (size 0 or above 4 MiB, impossible alignment, unknown flag, or a name
/// that is NULL or not UTF-8), ENOMEM, or ENOTSUP if QUARRY_DISABLE=1.
///
/// # Safety
/// The name ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_cache_create(
    name: *const c_char,
    size: usize,
    align: usize,
    constructor: Option<unsafe extern "C" fn(object: *mut c_void)>,
    flags: c_uint,
) -> *mut QuarryCache {
    if name.is_null() || flags & !(QUARRY_HWCACHE_ALIGN | QUARRY_NO_MERGE) != 0 {
        return null(libc::EINVAL);
    }
    // SAFETY: the name ends with a NUL (caller's promise).
    let Ok(name) = unsafe { CStr::from_ptr(name) }.to_str() else { return null(libc::EINVAL) };
    let mut params = CacheParams { size, align: if align == 0 { 1 } else { align } };
    if flags & QUARRY_HWCACHE_ALIGN != 0 {
        params = params.hardware_aligned();
    }
    let unmerged = flags & QUARRY_NO_MERGE != 0;
    // SAFETY: the caller vouches for the constructor.
    let constructor = constructor.map(|function| unsafe { Constructor::new(function) });
    let options = CacheOptions { constructor, unmerged, ..CacheOptions::default() };
    match RawCache::create(name, &params, &options) {
        Ok(cache) => without_provenance_mut(cache.handle()),
        Err(error) => null(error.errno()),
    }
}

/// Takes an object. Returns NULL with ENOMEM, or with EINVAL if there is no such cache or flag.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_cache_alloc(cache: *mut QuarryCache, flags: c_uint) -> *mut c_void {
    let Some(cache) = found(cache) else { return null_mut() };
    let object = match flags {
        0 => cache.alloc(),
        QUARRY_ZERO if !cache.has_constructor() => cache.alloc_zeroed(),
        _ => return null(libc::EINVAL),
    };
    object.map_or_else(|| null(libc::ENOMEM), |object| object.as_ptr().cast())
}

/// Gives an object back; NULL is ignored. Prints a line and aborts if the cache has no object
/// there, or if the object is known not to be in use.
///
/// # Safety
/// No code uses the object any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_cache_free(cache: *mut QuarryCache, object: *mut c_void) {
    if object.is_null() {
        return;
    }
    let cache = demanded(cache, "quarry_cache_free");
    // SAFETY: `object` is an object of this cache, and given up (caller's promise).
    unsafe { cache.free(cache.demand(object.cast())) };
}

/// Takes up to `count` objects, stores them from `objects[0]` on, and returns their number. If it
/// takes fewer, errno is ENOMEM, or EINVAL if there is no such cache or flag.
///
/// # Safety
/// `objects` has room for `count` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_cache_alloc_bulk(
    cache: *mut QuarryCache,
    flags: c_uint,
    count: usize,
    objects: *mut *mut c_void,
) -> usize {
    let Some(cache) = found(cache) else { return 0 };
    let is_zeroed = flags == QUARRY_ZERO && !cache.has_constructor();
    if flags != 0 && !is_zeroed || objects.is_null() && count > 0 {
        errno::set(libc::EINVAL);
        return 0;
    }
    let Some(objects) = NonNull::new(objects) else { return 0 };
    // SAFETY: there is room for `count` pointers (caller's promise).
    let out = unsafe {
        let places = objects.cast::<MaybeUninit<NonNull<u8>>>().as_ptr();
        core::slice::from_raw_parts_mut(places, count)
    };
    let taken = cache.alloc_bulk(out);
    if is_zeroed {
        for object in &out[..taken] {
            // SAFETY: the first `taken` elements are new objects of this many bytes.
            unsafe { object.assume_init().write_bytes(0, cache.object_bytes()) };
        }
    }
    if taken < count {
        errno::set(libc::ENOMEM);
    }
    taken
}

/// Gives `count` different objects back. Aborts like quarry_cache_free.
///
/// # Safety
/// `objects` are `count` pointers, and no code uses the objects any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_cache_free_bulk(
    cache: *mut QuarryCache,
    count: usize,
    objects: *const *mut c_void,
) {
    if count == 0 {
        return;
    }
    let cache = demanded(cache, "quarry_cache_free_bulk");
    // SAFETY: there are `count` pointers (caller's promise).
    let given = unsafe { core::slice::from_raw_parts(objects, count) };
    for object in given {
        cache.demand(object.cast());
    }
    // SAFETY: all are objects of this cache, not null, and given up (caller's promise).
    unsafe { cache.free_bulk(core::slice::from_raw_parts(objects.cast(), count)) };
}

/// Takes `count` objects in advance, so that later requests cannot fail. Returns NULL with ENOMEM
/// if there is no memory for all of them, or with EINVAL if `count` is above 4,092 or there is no
/// such cache.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_cache_prefill(
    cache: *mut QuarryCache,
    count: usize,
) -> *mut QuarryReserve {
    let Some(cache) = found(cache) else { return null_mut() };
    if count > RawReserve::MOST {
        return null(libc::EINVAL);
    }
    match RawReserve::of(cache, count) {
        Some(reserve) => reserve.into_raw().cast(),
        None => null(libc::ENOMEM),
    }
}

/// Takes an object out of a reserve, for quarry_cache_free. Returns NULL with ENOENT if all objects
/// have been taken. Aborts if there is no such reserve.
///
/// # Safety
/// No other thread uses the reserve during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_reserve_alloc(reserve: *mut QuarryReserve) -> *mut c_void {
    // SAFETY: the caller's promise is passed on.
    let mut held = unsafe { reserve_at(reserve, "quarry_reserve_alloc") };
    let object = held.take();
    let _ = held.into_raw();
    object.map_or_else(|| null(libc::ENOENT), |object| object.as_ptr().cast())
}

/// Gives back a reserve and its unused objects; NULL is ignored. Aborts if there is no reserve.
///
/// # Safety
/// No code uses the reserve any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_reserve_free(reserve: *mut QuarryReserve) {
    if !reserve.is_null() {
        // SAFETY: the caller's promise is passed on.
        drop(unsafe { reserve_at(reserve, "quarry_reserve_free") });
    }
}

/// # Safety
/// No other code uses the reserve.
unsafe fn reserve_at(reserve: *mut QuarryReserve, entry: &str) -> RawReserve {
    // SAFETY: the caller's promise is passed on.
    let found = unsafe { RawReserve::from_raw(reserve.cast()) };
    found.unwrap_or_else(|| fatal(format_args!("{entry}({reserve:p}): no reserve is there")))
}

/// Gives back the memory that a cache does not use now. Returns 0, or -1 with EINVAL if there is no
/// such cache.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_cache_shrink(cache: *mut QuarryCache) -> c_int {
    let Some(cache) = found(cache) else { return -1 };
    cache.shrink();
    0
}

/// Destroys a cache that is not used any more. Returns 0. If objects are in use, the cache stays:
/// prints their number to standard error and returns it. Returns -1 with EINVAL if there is no such
/// cache, for example because it was destroyed before.
///
/// # Safety
/// No other thread uses the cache during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_cache_destroy(cache: *mut QuarryCache) -> c_long {
    let Some(cache) = found(cache) else { return -1 };
    // SAFETY: the caller's promise is passed on.
    match unsafe { cache.destroy() } {
        Ok(()) => 0,
        Err(remaining) => {
            let name = cache.name();
            warn(format_args!("quarry_cache_destroy: cache {name}: {remaining}"));
            c_long::try_from(remaining.objects()).unwrap_or(c_long::MAX)
        }
    }
}

/// Takes a block of 2^order pages of 4 KiB (order 0 to 9), at a multiple of its size. Returns NULL
/// with ENOMEM, with EINVAL if there is no such order or flag, or with ENOTSUP if QUARRY_DISABLE=1.
#[unsafe(no_mangle)]
pub extern "C" fn quarry_pages_alloc(order: c_uint, flags: c_uint) -> *mut c_void {
    if order > MOST_ORDER || flags & !(QUARRY_ZERO | QUARRY_ATOMIC) != 0 {
        return null(libc::EINVAL);
    }
    let zeroed = flags & QUARRY_ZERO != 0;
    let flags = PageFlags { zeroed, atomic: flags & QUARRY_ATOMIC != 0 };
    match alloc_pages(order as u8, flags) {
        Some(pages) => pages.as_ptr().cast(),
        None if ensure_ready() == Mode::Disabled => null(libc::ENOTSUP),
        None => null(libc::ENOMEM),
    }
}

/// Gives a block of pages back; NULL is ignored. Prints a line and aborts if no block of this order
/// starts there.
///
/// # Safety
/// No code uses the pages any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quarry_pages_free(pages: *mut c_void, order: c_uint) {
    let Some(block) = NonNull::new(pages.cast()) else { return };
    if order > MOST_ORDER {
        fatal(format_args!("quarry_pages_free({pages:p}): there are no blocks of order {order}"));
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { free_pages(block, order as u8) };
}
