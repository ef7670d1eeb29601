//! Large blocks under `QUARRY_DEBUG` and `QUARRY_HARDEN`: they are made inaccessible when freed,
//! and a hardened block also ends at an inaccessible page.

use super::checker::Checker;
use super::checks::{Freed, Shape, Slot};
use core::ptr::NonNull;
use quarry_mm::frame::{FRAME_BYTES, FRAME_SHIFT, Kind, Pfn};
use quarry_mm::stack::{Block, LEAST_FRAMES, StackConfig, StackHost};
use quarry_sys::os::OsError;
use quarry_sys::own_stack;

/// Maximum number of frames in all hidden blocks together. They have no memory, but count as used.
const MOST_HIDDEN_FRAMES: u64 = (1 << 30) >> FRAME_SHIFT;

impl<C: StackConfig> Checker<'_, C> {
    fn guard_page(&self, slot: Slot) -> Option<NonNull<u8>> {
        let frames = (slot.bytes >> FRAME_SHIFT) as u32;
        if slot.bytes < FRAME_BYTES || !self.has_guard_page(frames + 1) {
            return None;
        }
        let pfn = self.arena().pfn(core::ptr::with_exposed_provenance(slot.start))?;
        (self.frames().link(pfn) == frames + 1).then(|| self.arena().address(Pfn(pfn.0 + frames)))
    }

    /// Makes the guard page after a slot, if any, inaccessible, if the system permits it.
    pub(super) fn protect_guard_page(&self, slot: Slot) {
        if let Some(page) = self.guard_page(slot) {
            let _ = self.arena().os().set_accessible(page, FRAME_BYTES, false);
        }
    }

    /// Makes the guard page after a slot, if any, accessible again; false on `ENOMEM`.
    pub(super) fn open_guard_page(&self, slot: Slot) -> bool {
        let os = self.arena().os();
        self.guard_page(slot).is_none_or(|page| {
            let opened = os.set_accessible(page, FRAME_BYTES, true);
            !matches!(opened, Err(OsError(libc::ENOMEM)))
        })
    }

    /// Makes a large freed object inaccessible for a while; returns whether it did.
    pub(super) fn hide_large(&self, slot: Slot, shape: Shape) -> bool {
        let pfn = self.arena().pfn(core::ptr::with_exposed_provenance(slot.start));
        let Some(pfn) = pfn.filter(|_| self.arena().has_small_pages()) else { return false };
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
        if !block.show(self.arena()) {
            return;
        }
        let kind = if block.about.is_mapping { Kind::MAPPING } else { Kind::PAGES };
        self.frames().set_kind(block.pfn, 1, kind);
        let object = self.arena().address(block.pfn);
        // SAFETY: the block was allocated, and no code uses it any more.
        unsafe { self.stack.free_unseen(object) };
    }
}
