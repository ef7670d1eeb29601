//! SQLite's heap on Quarry: `sqlite3_mem_methods`.

use crate::abi::{MemMethods, OK};
use crate::insist::insist;
use quarry::Quarry;
use quarry::process::{self, STACK};
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

/// The alignment that SQLite requires of an allocation.
const ALIGN: usize = 8;

/// The methods of the heap, which SQLite copies.
#[must_use]
pub const fn heap_methods() -> MemMethods {
    MemMethods {
        malloc: Some(malloc),
        free: Some(free),
        realloc: Some(realloc),
        size: Some(size),
        roundup: Some(roundup),
        init: Some(init),
        shutdown: Some(shutdown),
        argument: null_mut(),
    }
}

fn layout(bytes: c_int) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(bytes).ok()?, ALIGN).ok()
}

unsafe extern "C" fn malloc(bytes: c_int) -> *mut c_void {
    let Some(layout) = layout(bytes).filter(|_| bytes > 0) else { return null_mut() };
    // SAFETY: the layout has at least one byte.
    let object = insist(|| NonNull::new(unsafe { Quarry.alloc(layout) }));
    object.map_or(null_mut(), |object| object.as_ptr().cast())
}

unsafe extern "C" fn free(pointer: *mut c_void) {
    // SAFETY: SQLite gives up memory of `malloc` or `realloc`; Quarry ignores the layout.
    unsafe { Quarry.dealloc(pointer.cast(), Layout::new::<u64>()) };
}

unsafe extern "C" fn realloc(pointer: *mut c_void, bytes: c_int) -> *mut c_void {
    let Ok(bytes) = usize::try_from(bytes) else { return null_mut() };
    // SAFETY: SQLite asks for at least one byte, and gives up its old memory if this succeeds;
    // Quarry looks only at the alignment of the layout.
    let moved = || unsafe { Quarry.realloc(pointer.cast(), Layout::new::<u64>(), bytes) };
    let object = insist(|| NonNull::new(moved()));
    object.map_or(null_mut(), |object| object.as_ptr().cast())
}

unsafe extern "C" fn size(pointer: *mut c_void) -> c_int {
    let Some(object) = NonNull::new(pointer.cast::<u8>()) else { return 0 };
    let bytes = STACK.fast.usable(object);
    let bytes = bytes.unwrap_or_else(|| process::usable_size(object));
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

/// Rounds up to a multiple of 8, as SQLite's own heap does. A larger unit would make SQLite request
/// more than it needs; Quarry's classes round up anyway.
unsafe extern "C" fn roundup(bytes: c_int) -> c_int {
    bytes.checked_add(7).map_or(0, |bytes| bytes & !7)
}

pub(crate) unsafe extern "C" fn init(_: *mut c_void) -> c_int {
    OK
}

pub(crate) unsafe extern "C" fn shutdown(_: *mut c_void) {}
