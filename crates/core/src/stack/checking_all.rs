//! Looks at all objects that the checks know: at exit, and where a program asks for it.

use super::config::StackConfig;
use super::instance::Stack;
use crate::checks::Slot;
use crate::frame::{FRAME_SHIFT, Kind, PAGEBLOCK_FRAMES, PageblockIndex, Pfn};
use crate::slab::CacheId;

impl<C: StackConfig> Stack<C> {
    /// Looks at every object that has a record, in use or freed a while ago; reports the first that
    /// was written where nobody should write, and aborts. No other thread is on a slow path
    /// meanwhile. O(memory of the heap).
    pub fn look_at_all(&self) {
        if !self.is_ready() || !self.inner().checks.have_records() {
            return;
        }
        self.look_at_waiting();
        for block in (0..self.arena().span_blocks()).map(PageblockIndex) {
            if self.arena().is_taken(block) {
                let frames = (0..PAGEBLOCK_FRAMES).map(|offset| block.first().plus(offset));
                frames.for_each(|pfn| self.look_at_frame(pfn));
            }
        }
    }

    fn look_at_frame(&self, pfn: Pfn) {
        let kind = self.frames().kind(pfn);
        let address = self.address(pfn);
        if self.guarded_at(address.as_ptr()).is_some() {
            return;
        }
        if kind == Kind::PAGES || kind == Kind::MAPPING {
            let slot = self.slot_at(address.as_ptr());
            return slot.into_iter().for_each(|slot| self.look_at_live(slot));
        }
        if !kind.is_cache() || !Self::is_of_malloc(CacheId::new(usize::from(kind.0))) {
            return;
        }
        let id = CacheId::new(usize::from(kind.0));
        let offset = (pfn.0 as usize) << FRAME_SHIFT;
        let Some(cache) = self.find_cache(id) else { return };
        if self.fast.geometry[id.index()].slab(offset) != pfn {
            return;
        }
        let first = address.as_ptr().expose_provenance() + cache.first_object();
        let bytes = cache.stride();
        for number in 0..cache.objects() as usize {
            self.look_at_live(Slot { start: first + number * bytes, bytes });
        }
    }

    fn look_at_live(&self, slot: Slot) {
        if let Some((shape, damage)) = self.damage_of_live(slot) {
            self.report_damage(None, slot, shape, damage);
        }
    }
}
