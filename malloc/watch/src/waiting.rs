//! Freed objects that wait in quarantine, and what frees them after that: no gate is needed.

use super::checker::Checker;
use super::checks::{STRIPES, Seal, Slot};
use quarry_mm::heap::classes;
use quarry_mm::stack::{StackConfig, StackHost};
use quarry_sys::errno::KeepErrno;
use quarry_sys::gate;
use quarry_sys::percpu::{Object, PerCpu};

impl<C: StackConfig> Checker<'_, C> {
    /// The stripe of the running CPU; without hardening always the first.
    pub(super) fn stripe(&self) -> usize {
        let is_striped = self.options().harden;
        if is_striped { self.stack.percpu().current().index() % STRIPES } else { 0 }
    }

    pub(super) fn release(&self, slot: Slot) {
        self.look_at_freed(slot);
        if slot.bytes > classes::LARGEST && !self.open_guard_page(slot.start) {
            // A block that is still inaccessible must not be allocated again.
            return;
        }
        let start = Object::new(core::ptr::with_exposed_provenance_mut(slot.start));
        // SAFETY: the slot was allocated, and no code uses it any more.
        start.into_iter().for_each(|start| unsafe { self.stack.free_unseen(start) });
    }

    #[inline(never)]
    pub(super) fn look_at_freed(&self, slot: Slot) {
        // SAFETY: the slot is the memory of an object in quarantine.
        let record = unsafe { slot.record() };
        let shape = record.shape();
        if record.seal(self.secret()) != Seal::Freed {
            self.report_written_record(slot);
        }
        // SAFETY: the slot is the memory of an object in quarantine.
        if let Some(damage) = unsafe { self.parts(slot, shape).damage_of_buried() } {
            self.report_damage(None, slot, shape, damage);
        }
    }

    /// Frees an object that leaves the quarantine. Returns false, and does nothing, if a slow path
    /// has to do it.
    fn release_outside(&self, slot: Slot) -> bool {
        let start = core::ptr::with_exposed_provenance_mut(slot.start);
        let Some((id, _)) = self.slab_object(start) else { return false };
        self.look_at_freed(slot);
        let object = Object::new(start);
        // SAFETY: the slot was allocated from this cache, and no code uses it any more.
        object.is_some_and(|object| unsafe { self.stack.fast.free_of(id, object) }.is_ok())
    }

    /// Frees an object that [`exchange`](Self::exchange) has left to a slow path, inside the gate.
    #[cold]
    #[inline(never)]
    pub(super) fn release_inside(&self, slot: Slot) {
        let _errno = KeepErrno::new();
        let _inside = gate::enter();
        self.release(slot);
    }

    /// Puts `slot` into quarantine, if it is one, and frees objects that have waited there long
    /// enough. Leaves the first one in `slot` that a slow path has to free: then the caller does
    /// so, and calls this again. Needs no gate.
    // The caller runs the slow path, because this function's variables take room on the stack.
    #[inline(never)]
    pub(super) fn exchange(&self, slot: &mut Option<Slot>) {
        let number = self.stripe();
        let at_random = self.options().harden.then(|| self.checks.random(number));
        let quarantine = &self.checks.stripes[number].quarantine;
        let mut is_more = true;
        while is_more {
            // Without room in the quarantine, or inside its lock, an object is freed at once.
            let mut due = slot.take();
            is_more = false;
            if let Some(mut quarantine) = quarantine.lock_of_others() {
                if let Some(entering) = due.take_if(|_| !quarantine.is_full()) {
                    quarantine.push(entering, at_random);
                }
                due = due.or_else(|| quarantine.pop(false));
                is_more = quarantine.is_due();
            }
            if let Some(due) = due
                && !self.release_outside(due)
            {
                *slot = Some(due);
                return;
            }
        }
    }
}
