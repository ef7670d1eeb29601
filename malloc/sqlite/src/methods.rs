//! The methods that SQLite calls for its page caches: `sqlite3_pcache_methods2`.

use crate::abi::{Pcache, PcacheMethods2, PcachePage};
use crate::heap::{init, shutdown};
use crate::page_cache::{PageCache, Want};
use quarry::{Quarry, process};
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_uint};
use std::ptr::{NonNull, null_mut};

/// The methods of the page cache, which SQLite copies.
#[must_use]
pub const fn page_cache_methods() -> PcacheMethods2 {
    PcacheMethods2 {
        version: 1,
        argument: null_mut(),
        init: Some(init),
        shutdown: Some(shutdown),
        create: Some(create),
        cachesize: Some(cachesize),
        pagecount: Some(pagecount),
        fetch: Some(fetch),
        unpin: Some(unpin),
        rekey: Some(rekey),
        truncate: Some(truncate),
        destroy: Some(destroy),
        shrink: Some(shrink),
    }
}

/// The cache with this handle.
///
/// # Safety
/// The handle came from `create`, was not destroyed, and is used by one thread at a time.
#[inline(always)]
unsafe fn cache<'a>(handle: *mut Pcache) -> &'a mut PageCache {
    // SAFETY: the caller's promise.
    unsafe { &mut *handle.cast::<PageCache>() }
}

unsafe extern "C" fn create(page: c_int, extra: c_int, purgeable: c_int) -> *mut Pcache {
    let (Ok(page), Ok(extra)) = (usize::try_from(page), usize::try_from(extra)) else {
        return null_mut();
    };
    let cache = PageCache::create(page, extra, purgeable != 0).and_then(process::boxed);
    cache.map_or(null_mut(), |cache| cache.as_ptr().cast())
}

unsafe extern "C" fn cachesize(handle: *mut Pcache, pages: c_int) {
    // SAFETY: SQLite passes only valid handles, and calls a cache on one thread at a time.
    unsafe { cache(handle) }.suggest(u32::try_from(pages).unwrap_or(0));
}

unsafe extern "C" fn pagecount(handle: *mut Pcache) -> c_int {
    // SAFETY: SQLite's promise.
    c_int::try_from(unsafe { cache(handle) }.pages()).unwrap_or(c_int::MAX)
}

unsafe extern "C" fn fetch(handle: *mut Pcache, key: c_uint, create: c_int) -> *mut PcachePage {
    let want = match create {
        0 => Want::IfThere,
        1 => Want::IfEasy,
        _ => Want::Surely,
    };
    // SAFETY: SQLite's promise.
    let record = unsafe { cache(handle) }.fetch(key, want);
    record.map_or(null_mut(), |record| record.as_ptr().cast())
}

unsafe extern "C" fn unpin(handle: *mut Pcache, page: *mut PcachePage, discard: c_int) {
    let Some(record) = NonNull::new(page.cast()) else { return };
    // SAFETY: SQLite's promise; its page is the head of a record.
    unsafe { cache(handle).unpin(record, discard != 0) };
}

unsafe extern "C" fn rekey(handle: *mut Pcache, page: *mut PcachePage, _: c_uint, new: c_uint) {
    let Some(record) = NonNull::new(page.cast()) else { return };
    // SAFETY: SQLite's promise; its page is the head of a record.
    unsafe { cache(handle).rekey(record, new) };
}

unsafe extern "C" fn truncate(handle: *mut Pcache, limit: c_uint) {
    // SAFETY: SQLite's promise.
    unsafe { cache(handle) }.truncate(limit);
}

unsafe extern "C" fn destroy(handle: *mut Pcache) {
    let memory = handle.cast::<PageCache>();
    // SAFETY: SQLite's promise; SQLite does not use the handle any more.
    unsafe {
        memory.drop_in_place();
        Quarry.dealloc(memory.cast(), Layout::new::<PageCache>());
    }
}

unsafe extern "C" fn shrink(handle: *mut Pcache) {
    // SAFETY: SQLite's promise.
    unsafe { cache(handle) }.shrink();
}
