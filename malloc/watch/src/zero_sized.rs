//! Requests of 0 bytes under `QUARRY_HARDEN`, and what is freed of them.

use super::checker::{Allocation, Checker, Storage};
use super::checks::zero_sized::{BITS_BYTES, POOL_BYTES};
use quarry_mm::frame::MetadataKind;
use quarry_mm::heap::classes;
use quarry_mm::stack::{Entry, MIN_ALIGN, Misuse, StackConfig, StackHost};
use quarry_sys::percpu::Object;

impl<C: StackConfig> Checker<'_, C> {
    /// Makes the pool, if the system has memory for its bits and protects its addresses.
    pub(super) fn start_zero_sized(&self) {
        let (os, zeros) = (self.arena().os(), &self.checks.zero_sized);
        let used = self.stack.metadata().alloc(BITS_BYTES, 64, MetadataKind::Other);
        let Ok(used) = used else { return };
        let Ok(base) = os.reserve(POOL_BYTES) else { return };
        if os.set_accessible(base, POOL_BYTES, false).is_err() {
            // SAFETY: reserved above, and not used.
            return unsafe { os.release(base, POOL_BYTES) };
        }
        // SAFETY: the metadata is zero, and neither it nor the reservation is ever given back.
        unsafe { zeros.open(base.as_ptr().expose_provenance(), used.as_ptr().cast()) };
    }

    /// An object of 0 bytes at a multiple of `align`, if the pool has one.
    pub(super) fn alloc_zero_sized(&self, align: usize) -> Option<Object> {
        if align > MIN_ALIGN {
            return None;
        }
        let zeros = &self.checks.zero_sized;
        Object::new(core::ptr::with_exposed_provenance_mut(zeros.address(zeros.take()?)))
    }

    /// The object in use at an address of the pool; reports any other address and aborts.
    pub(super) fn seen_zero_sized(&self, entry: Entry, at: Object, number: usize) -> Allocation {
        let zeros = &self.checks.zero_sized;
        let address = zeros.address(number);
        let seen = Allocation { storage: Storage::ZeroSized(number), address, size: 0 };
        if address != at.as_ptr().addr() {
            let inside = Misuse::InsideObject(classes::of(0));
            self.misuse_of_seen_at(entry, at.as_ptr(), &seen, inside);
        }
        if !zeros.is_used(number) {
            self.misuse_of_seen(entry, &seen, Misuse::NothingInUse);
        }
        seen
    }

    pub(super) fn free_zero_sized(&self, entry: Entry, seen: &Allocation, number: usize) {
        if !self.checks.zero_sized.put(number) {
            self.misuse_of_seen(entry, seen, Misuse::NothingInUse);
        }
    }
}
