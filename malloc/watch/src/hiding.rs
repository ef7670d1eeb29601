//! Blocks of pages under `QUARRY_DEBUG` and `QUARRY_HARDEN`: a hardened one ends at a guard, and
//! large ones are made inaccessible when freed.

use super::checker::Checker;
use super::checks::{Freed, Shape, Slot};
use quarry_mm::frame::{FRAME_SHIFT, Kind, Pfn};
use quarry_mm::stack::{Block, LEAST_FRAMES, StackConfig, StackHost};
use quarry_sys::own_stack;

/// Maximum number of frames in all hidden blocks together. They have no memory, but count as used.
const MOST_HIDDEN_FRAMES: u64 = (1 << 30) >> FRAME_SHIFT;

impl<C: StackConfig> Checker<'_, C> {
    /// The frames at the end of the block at an address that are or may become its guard.
    fn guard_page(&self, start: usize) -> Option<(Pfn, u32)> {
        let pfn = self.arena().pfn(core::ptr::with_exposed_provenance(start))?;
        let frames = self.frames().link(pfn);
        let guard = self.guard_frames(frames);
        (guard > 0).then(|| (pfn.plus(frames - guard), guard))
    }

    /// Makes the last page of a large slot's block a guard, which has no memory; if the system
    /// permits it, every access to it faults.
    pub(super) fn protect_guard_page(&self, slot: Slot) {
        if let Some((first, count)) = self.guard_page(slot.start) {
            self.stack.pages().zones().guard_or_purge(first, count);
        }
    }

    /// Ends the guard of the block at an address, if it has one; false if the system refuses.
    pub(super) fn open_guard_page(&self, start: usize) -> bool {
        let is_guard = |page: &(Pfn, u32)| self.frames().kind(page.0) == Kind::GUARD;
        let page = self.guard_page(start).filter(is_guard);
        page.is_none_or(|(first, count)| self.stack.pages().zones().unguard(first, count))
    }

    /// Makes a large freed object inaccessible for a while; returns whether it did.
    pub(super) fn hide_large(&self, slot: Slot, shape: Shape) -> bool {
        let pfn = self.arena().pfn(core::ptr::with_exposed_provenance(slot.start));
        let Some(pfn) = pfn else { return false };
        let frames = self.frames().link(pfn);
        frames >= LEAST_FRAMES && own_stack::run(|| self.hide_frames(slot, shape, (pfn, frames)))
    }

    #[inline(never)]
    fn hide_frames(&self, slot: Slot, shape: Shape, (pfn, frames): (Pfn, u32)) -> bool {
        let is_mapping = self.frames().kind(pfn) == Kind::MAPPING;
        // SAFETY: the slot was made for this shape, and is still accessible.
        let tracks = unsafe { slot.tracked(&shape) };
        let block = Block { pfn, frames, about: Freed { is_mapping, shape, tracks } };
        self.frames().set_kind(pfn, 1, Kind::HIDDEN);
        if !block.hide(self.arena()) {
            let kind = if is_mapping { Kind::MAPPING } else { Kind::PAGES };
            self.frames().set_kind(pfn, 1, kind);
            return false;
        }
        let Some(mut hidden) = self.checks.hidden.lock_of_others() else {
            self.free_hidden_block(block);
            return true;
        };
        let before = hidden.push(block);
        let is_too_much = hidden.frames() > MOST_HIDDEN_FRAMES;
        drop(hidden);
        before.into_iter().for_each(|before| self.free_hidden_block(before));
        if is_too_much {
            self.free_hidden();
        }
        true
    }

    #[cold]
    pub(super) fn free_hidden(&self) -> bool {
        let is_there = self.checks.hidden.lock_of_others().is_some_and(|all| all.frames() > 0);
        is_there && own_stack::run(|| self.free_all_hidden())
    }

    #[inline(never)]
    fn free_all_hidden(&self) -> bool {
        let mut any = false;
        let next = || self.checks.hidden.lock_of_others()?.pop();
        while let Some(block) = next() {
            self.free_hidden_block(block);
            any = true;
        }
        any
    }

    /// Gives back a hidden block. If the block stays inaccessible, it is lost: it is never reused.
    fn free_hidden_block(&self, block: Block<Freed>) {
        let object = self.arena().address(block.pfn);
        let start = object.as_ptr().expose_provenance();
        if !block.show(self.arena()) || !self.open_guard_page(start) {
            return;
        }
        let kind = if block.about.is_mapping { Kind::MAPPING } else { Kind::PAGES };
        self.frames().set_kind(block.pfn, 1, kind);
        // SAFETY: the block was allocated, and no code uses it any more.
        unsafe { self.stack.free_unseen(object) };
    }
}
