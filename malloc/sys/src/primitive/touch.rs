//! Announcements of plain accesses to shared memory: frame table, lists, slabs' bits, links, pages.
//!
//! Atomics announce themselves. The plain loads and stores of a task that holds a lock or owns the
//! memory do not, so the task announces them. Then a simulated machine knows which cache lines move
//! between its CPUs. In products, and under the model, the calls are empty.
//!
//! One call stands for all accesses of one operation to one value, and precedes them. Taking a lock
//! does not announce the guarded value: a section may use few of its cache lines.

use super::backend::machine;
use super::machine::Access;
use core::panic::Location;

/// Announces that the running task is about to access `value`.
#[inline(always)]
#[track_caller]
pub fn touch<T: ?Sized>(value: &T, access: Access) {
    touch_bytes(core::ptr::from_ref(value).cast(), size_of_val(value), access);
}

/// Announces an access to `bytes` bytes from `start` on, which need not be readable.
#[inline(always)]
#[track_caller]
pub fn touch_bytes(start: *const u8, bytes: usize, access: Access) {
    if let Some(machine) = machine() {
        machine.comes_from(Location::caller());
        machine.touch(start as usize, bytes, access);
    }
}
