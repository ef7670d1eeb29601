//! Announcements of plain memory that several CPUs use: frame table, lists, slab bits, links,
//! pages.
//!
//! Atomics report themselves. Plain loads and stores, which a task may make because it holds a lock
//! or owns the memory, do not: the task announces them, so that a simulated machine knows which
//! cache lines move between its CPUs. In products, and under the model, the calls are empty.
//!
//! One call stands for all accesses of one operation to one value, and comes before the first. A
//! lock does not announce its value: that may have many lines, of which a section uses two.

use super::access::Access;
use super::backend;

/// Announces that the running task is about to use `value`.
#[inline(always)]
pub fn touch<T: ?Sized>(value: &T, access: Access) {
    touch_bytes(core::ptr::from_ref(value).cast(), size_of_val(value), access);
}

/// Announces a use of `bytes` bytes from `start` on, which need not be readable.
#[inline(always)]
pub fn touch_bytes(start: *const u8, bytes: usize, access: Access) {
    backend::touch(start as usize, bytes, access);
}
