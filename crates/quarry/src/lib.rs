//! A memory allocator that is the Linux kernel's memory management for one process: zones with a
//! buddy allocator, per-CPU page lists, slab caches.
//!
//! ```
//! #[global_allocator]
//! static A: quarry::Quarry = quarry::Quarry;
//!
//! fn main() {
//!     let numbers: Vec<u64> = (0..1000).collect();
//!     assert_eq!(numbers.iter().sum::<u64>(), 499_500);
//!     assert!(quarry::Quarry::owns(numbers.as_ptr().cast()));
//! }
//! ```
//!
//! Settings are read from `QUARRY_*` variables at the first allocation, as `libquarry.so` does; a
//! wrong name or value prints one line, and the program runs on.
#![no_std]

mod background;
mod environment;
mod limits;
pub mod process;

use core::alloc::{GlobalAlloc, Layout};
use quarry_sys::percpu::Object;

/// The process-wide allocator, for `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quarry;

impl Quarry {
    /// Whether `address` lies in memory that Quarry manages. O(1).
    #[must_use]
    pub fn owns(address: *const u8) -> bool {
        process::STACK.owns(address)
    }

    /// Returns to the operating system what can be returned, and the bytes that this was.
    #[must_use]
    pub fn trim() -> usize {
        if process::is_ready() { process::STACK.trim() } else { 0 }
    }
}

fn raw(object: Option<Object>) -> *mut u8 {
    object.map_or(core::ptr::null_mut(), Object::as_ptr)
}

// SAFETY: allocations have at least the layout's size and alignment (classes and blocks round up),
// stay where they are until freed, and belong to one caller.
unsafe impl GlobalAlloc for Quarry {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= quarry_core::stack::MIN_ALIGN {
            raw(process::alloc(layout.size()))
        } else {
            raw(process::alloc_aligned(layout.size(), layout.align()))
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, _layout: Layout) {
        if let Some(object) = Object::new(pointer) {
            // SAFETY: the caller gives up what `alloc` gave it.
            unsafe { process::free(object) };
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= quarry_core::stack::MIN_ALIGN {
            return raw(process::alloc_zeroed(layout.size()));
        }
        let object = process::alloc_aligned(layout.size(), layout.align());
        if let Some(object) = object {
            // SAFETY: fresh, at least `size` bytes, known to nobody else.
            unsafe { object.as_ptr().write_bytes(0, layout.size()) };
        }
        raw(object)
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(object) = Object::new(pointer) else { return core::ptr::null_mut() };
        if layout.align() <= quarry_core::stack::MIN_ALIGN {
            // SAFETY: the caller gives up what `alloc` gave it where this succeeds.
            return raw(unsafe { process::realloc(object, size) });
        }
        let new = process::alloc_aligned(size, layout.align());
        if let Some(new) = new {
            let bytes = size.min(layout.size());
            // SAFETY: both have at least `bytes` bytes and are different allocations; the caller
            // gives up the old one.
            unsafe {
                core::ptr::copy_nonoverlapping(pointer, new.as_ptr(), bytes);
                process::free(object);
            }
        }
        raw(new)
    }
}
