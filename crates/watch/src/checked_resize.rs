//! `realloc` of allocations that have a record of the checks or lie between guard pages.

use super::checker::{Allocation, Checker, Storage};
use super::checks::{Shape, Slot};
use quarry_mm::heap::classes;
use quarry_mm::stack::{Entry, Request, StackConfig, StackHost, with_headroom};
use quarry_sys::percpu::Object;

impl<C: StackConfig> Checker<'_, C> {
    /// `realloc` of an allocation with a record or between guard pages; `None` for any other one.
    ///
    /// # Safety
    /// Same as [`Stack::realloc`].
    #[inline(never)]
    pub(super) unsafe fn realloc_if_seen(
        &self,
        object: Object,
        request: Request,
    ) -> Option<Option<Object>> {
        let seen = self.seen(Entry::Realloc, object)?;
        // SAFETY: the caller's promise is passed on.
        Some(unsafe { self.realloc_seen(&seen, request) })
    }

    /// A small object always moves, so that stale pointers to it are found. A large object stays in
    /// its slot if it fits and fills at least half of it. A large object that grows gets headroom.
    ///
    /// # Safety
    /// Same as [`Stack::realloc`] for the object of `seen`.
    unsafe fn realloc_seen(&self, seen: &Allocation, request: Request) -> Option<Object> {
        let size = request.size;
        let object = Object::new(core::ptr::with_exposed_provenance_mut(seen.address))?;
        if let Storage::Slot(slot, shape) = seen.storage {
            // SAFETY: the object is live, and only the caller uses it (caller's promise).
            if unsafe { self.resize_checked(slot, shape, size) } {
                return Some(object);
            }
        }
        let room = if seen.size > classes::LARGEST && size > seen.size {
            with_headroom(seen.size, size) - size
        } else {
            0
        };
        let new = if self.options().have_records() {
            self.alloc_roomy(request, room)?
        } else {
            self.stack.alloc_unseen(request)?
        };
        // SAFETY: both objects have at least `kept` bytes and do not overlap; the old one is live.
        unsafe {
            let kept = seen.size.min(size);
            core::ptr::copy_nonoverlapping(object.as_ptr(), new.as_ptr(), kept);
            self.free_seen(Entry::Realloc, object);
        }
        Some(new)
    }

    /// Resizes a large object in place to `size` bytes; false if it should move.
    ///
    /// # Safety
    /// The object is live, and only the caller uses it.
    // Not inlined: its variables take no room on the thread's stack while the caller allocates.
    #[inline(never)]
    unsafe fn resize_checked(&self, slot: Slot, shape: Shape, size: usize) -> bool {
        let resized = Shape { size, ..shape };
        let fits = resized.slot_bytes().is_some_and(|bytes| {
            slot.bytes > classes::LARGEST && bytes <= slot.bytes && bytes >= slot.bytes / 2
        });
        if !fits {
            return false;
        }
        let before = self.parts(slot, shape);
        // SAFETY: the object is live, and no other code uses it (caller's promise).
        unsafe {
            if let Some(damage) = before.damage() {
                self.report_damage(Some(Entry::Realloc), slot, shape, damage);
            }
            self.parts(slot, resized).arm();
            slot.record().set(self.secret(), &resized);
        }
        true
    }
}
