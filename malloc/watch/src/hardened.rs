//! Small objects under `QUARRY_HARDEN`, outside the gate: no lock but that of a quarantine.
//!
//! Only what is right is done here. Whatever else is found is left, as it was, to the slow paths of
//! `checked.rs`, which find it again, and report it.
//!
//! If another thread forks while this code runs, the object is in use, or no thread of the child
//! has it: the child loses it, like an object in use by a thread that it lacks.

use super::checker::Checker;
use super::checks::Shape;
use quarry_mm::heap::{CheckFlags, classes};
use quarry_mm::stack::{Instrument, MIN_ALIGN, StackConfig};
use quarry_sys::percpu::Object;

impl<C: StackConfig> Checker<'_, C> {
    /// Allocates a small object under `QUARRY_HARDEN` alone, if the running CPU has one, and
    /// hardening is the only instrument.
    #[inline(never)]
    pub(super) fn alloc_hardened(&self, size: usize, zeroed: bool) -> Option<Object> {
        let is_alone = self.stack.instruments.is_only(Instrument::Harden);
        if !is_alone || size == 0 || size > classes::LARGEST {
            return None;
        }
        let shape = Shape::of(size, MIN_ALIGN, CheckFlags::HARDEN);
        let bytes = shape.slot_bytes().filter(|bytes| *bytes <= classes::LARGEST)?;
        let class = classes::of(bytes);
        let start = loop {
            let fresh = self.stack.fast.alloc_of(class)?;
            if let Some(start) = self.shuffled(fresh, bytes, MIN_ALIGN) {
                break start;
            }
        };
        let slot = self.object_slot(start.as_ptr())?;
        self.make_ready(slot, shape, zeroed)
    }

    /// Frees a small object in use under `QUARRY_HARDEN` alone. `None`, and nothing is done, if
    /// there is anything wrong with it, or it is of another kind. Returns whether others were freed
    /// by a slow path.
    ///
    /// # Safety
    /// The user of the object has given it up.
    #[inline(never)]
    pub(super) unsafe fn free_hardened(&self, object: Object) -> Option<bool> {
        let start = object.as_ptr().wrapping_sub(Shape::of(0, MIN_ALIGN, CheckFlags::HARDEN).front);
        let slot = self.object_slot(start)?;
        slot.prefetch();
        // SAFETY: the slot is memory of a slab.
        let record = unsafe { slot.record() };
        let live = record.live(self.secret())?;
        let parts = self.parts(slot, live.shape());
        let is_mine = parts.user().start == object.as_ptr().addr();
        // SAFETY: the slot holds the object, which its user has given up.
        unsafe {
            if !is_mine || parts.damage().is_some() || !record.bury(live) {
                return None;
            }
            parts.bury();
        }
        let (mut slot, mut was_slow) = (Some(slot), false);
        loop {
            self.exchange(&mut slot);
            let Some(due) = slot.take() else { return Some(was_slow) };
            self.release_inside(due);
            was_slow = true;
        }
    }
}
