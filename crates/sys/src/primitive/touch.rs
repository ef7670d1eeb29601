//! Plain memory that several CPUs use: frame table entries, heads of lists, bits of slabs, links in
//! objects, pages.
//!
//! The atomics report themselves. Memory that a task may use by plain loads and stores, because it
//! holds a lock or owns it, does not: the task that uses it announces it. A simulated machine then
//! knows which cache lines move between its CPUs. In products, and under the model, the calls are
//! empty.
//!
//! One call stands for all accesses of one operation to one value, and it comes before the first. A
//! lock touches nothing of what it guards: its value may have many lines of which a section uses
//! two.

use super::access::Access;
use super::backend;

/// Says that the running task is about to use `value`.
#[inline(always)]
pub fn touch<T: ?Sized>(value: &T, access: Access) {
    touch_bytes(core::ptr::from_ref(value).cast(), size_of_val(value), access);
}

/// Says that the running task is about to use `bytes` bytes from `start` on, which need not be
/// readable: nothing is read.
#[inline(always)]
pub fn touch_bytes(start: *const u8, bytes: usize, access: Access) {
    backend::touch(start as usize, bytes, access);
}
