//! Checks all objects with records: at exit, and when a program requests it.

use super::checker::{Checker, is_of_malloc};
use super::checks::{Checks, Seal, Slot};
use quarry_mm::frame::{Kind, PAGEBLOCK_FRAMES, PageblockIndex, Pfn};
use quarry_mm::slab::CacheId;
use quarry_mm::stack::{Stack, StackConfig, StackHost};

impl Checks {
    /// Checks every object of `stack` (the stack of these checks) that has a record, in use or in
    /// quarantine. Reports the first forbidden write that it finds, and aborts. No other thread may
    /// be on a slow path. O(memory of the heap).
    pub fn look_at_all<C: StackConfig>(&self, stack: &Stack<C>) {
        if stack.has_classes() && self.options().have_records() {
            self.on(stack).look_at_all();
        }
    }
}

impl<C: StackConfig> Checker<'_, C> {
    fn look_at_all(&self) {
        if let Some(mut quarantine) = self.checks.quarantine.lock_of_others() {
            quarantine.all().for_each(|slot| self.look_at_freed(slot));
        }
        for block in (0..self.arena().span_blocks()).map(PageblockIndex) {
            if self.arena().is_taken(block) {
                let frames = (0..PAGEBLOCK_FRAMES).map(|offset| block.first().plus(offset));
                frames.for_each(|pfn| self.look_at_frame(pfn));
            }
        }
    }

    fn look_at_frame(&self, pfn: Pfn) {
        let kind = self.frames().kind(pfn);
        let address = self.arena().address(pfn);
        if self.checks.guarded_at(address.as_ptr()).is_some() {
            return;
        }
        if kind == Kind::PAGES || kind == Kind::MAPPING {
            let slot = self.slot_at(address.as_ptr());
            return slot.into_iter().for_each(|slot| self.look_at_live(slot));
        }
        let id = CacheId::of(kind).filter(|id| is_of_malloc(*id));
        let Some(cache) = id.and_then(|id| self.stack.caches.get(id)) else { return };
        if !pfn.is_aligned(cache.order()) {
            return;
        }
        let first = address.as_ptr().expose_provenance() + cache.first_object();
        let bytes = cache.stride();
        for number in 0..cache.objects() as usize {
            self.look_at_live(Slot { start: first + number * bytes, bytes });
        }
    }

    fn look_at_live(&self, slot: Slot) {
        // SAFETY: the slot is memory of a slab, a block or a mapping in use.
        let record = unsafe { slot.record() };
        if record.seal(self.secret()) != Seal::Live {
            return;
        }
        let shape = record.shape();
        // SAFETY: the slot is memory of a slab, a block or a mapping in use.
        if let Some(damage) = unsafe { self.parts(slot, shape).damage() } {
            self.report_damage(None, slot, shape, damage);
        }
    }
}
