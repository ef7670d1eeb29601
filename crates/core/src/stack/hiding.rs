//! Large blocks under `QUARRY_DEBUG` and `QUARRY_HARDEN`: they fault after they were freed, and
//! hardened ones end at a page that faults.

use super::checked::LEAST_HIDDEN;
use super::config::StackConfig;
use super::instance::Stack;
use crate::checks::hidden::HiddenBlock;
use crate::checks::{CheckFlags, Shape, Slot};
use crate::frame::{FRAME_BYTES, FRAME_SHIFT, Kind, Pfn};
use core::ptr::NonNull;
use quarry_sys::os::OsError;
use quarry_sys::own_stack;
use quarry_sys::percpu::Object;

/// Frames that hidden blocks may have together: they have no memory, but count as used.
const MOST_HIDDEN_FRAMES: u64 = (1 << 30) >> FRAME_SHIFT;

impl<C: StackConfig> Stack<C> {
    /// Returns whether a page of the system is a frame: otherwise a page may hold other blocks.
    fn has_small_pages(&self) -> bool {
        self.arena().os().page_size() == FRAME_BYTES
    }

    /// Returns whether a block of so many frames ends at a guard page.
    pub(super) fn has_guard_page(&self, frames: u32) -> bool {
        self.inner().checks.harden && frames >= LEAST_HIDDEN && self.has_small_pages()
    }

    /// The guard page behind a slot, if there is one.
    fn guard_page(&self, slot: Slot) -> Option<NonNull<u8>> {
        let frames = (slot.bytes >> FRAME_SHIFT) as u32;
        if slot.bytes < FRAME_BYTES || !self.has_guard_page(frames + 1) {
            return None;
        }
        let pfn = self.pfn(core::ptr::with_exposed_provenance(slot.start))?;
        (self.frames().link(pfn) == frames + 1).then(|| self.address(Pfn(pfn.0 + frames)))
    }

    /// Makes the guard page fault. Where the process has too many mappings, it does not.
    pub(super) fn protect_guard_page(&self, slot: Slot) {
        if let Some(page) = self.guard_page(slot) {
            let _ = self.arena().os().set_accessible(page, FRAME_BYTES, false);
        }
    }

    /// Makes the guard page behind a slot accessible again, if there is one; false where the system
    /// refuses.
    pub(super) fn open_guard_page(&self, slot: Slot) -> bool {
        let os = self.arena().os();
        self.guard_page(slot).is_none_or(|page| {
            let opened = os.set_accessible(page, FRAME_BYTES, true);
            !matches!(opened, Err(OsError(libc::ENOMEM)))
        })
    }

    /// Frees a large object so that it faults for a while. Where that is not to be had it returns
    /// false, and all of the block is accessible.
    pub(super) fn hide_large(&self, slot: Slot, shape: Shape) -> bool {
        let pfn = self.pfn(core::ptr::with_exposed_provenance(slot.start));
        let Some(pfn) = pfn.filter(|_| self.has_small_pages()) else { return false };
        let frames = self.frames().link(pfn);
        frames >= LEAST_HIDDEN && own_stack::run(|| self.hide_frames(slot, shape, (pfn, frames)))
    }

    #[inline(never)]
    fn hide_frames(&self, slot: Slot, shape: Shape, (pfn, frames): (Pfn, u32)) -> bool {
        let is_mapping = self.frames().kind(pfn) == Kind::MAPPING;
        let tracks = if shape.flags.has(CheckFlags::OWNER) {
            // SAFETY: the slot was made with tracks, and is still accessible.
            let tracks = unsafe { slot.tracks() };
            [tracks.allocated.get(), tracks.freed.get()]
        } else {
            [None; 2]
        };
        let block = HiddenBlock { first: pfn.0, frames, is_mapping, shape, tracks };
        self.frames().set_kind(pfn, 1, Kind::HIDDEN);
        if !self.hide_block(&block) {
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

    /// Frees all hidden blocks; returns whether there were any.
    #[cold]
    pub(super) fn free_hidden(&self) -> bool {
        let is_there = self.checks.hidden.lock_of_others().is_some_and(|all| all.frames() > 0);
        is_there && own_stack::run(|| self.free_all_hidden())
    }

    #[inline(never)]
    fn free_all_hidden(&self) -> bool {
        let mut any = false;
        while let Some(block) = self.checks.hidden.lock_of_others().and_then(|mut all| all.pop()) {
            self.free_hidden_block(block);
            any = true;
        }
        any
    }

    fn place_of(&self, block: &HiddenBlock) -> (NonNull<u8>, usize) {
        (self.address(Pfn(block.first)), (block.frames as usize) << FRAME_SHIFT)
    }

    /// Returns whether any of a block is inaccessible now.
    fn hide_block(&self, block: &HiddenBlock) -> bool {
        let (os, (address, bytes)) = (self.arena().os(), self.place_of(block));
        match os.set_accessible(address, bytes, false) {
            Ok(()) => {
                // If the system refuses, the pages stay in memory.
                let _ = os.purge(address, bytes);
                true
            }
            // The call may have changed a part of the block before the process had too many
            // mappings.
            Err(OsError(libc::ENOMEM)) => os.set_accessible(address, bytes, true).is_err(),
            Err(_) => false,
        }
    }

    /// Gives the memory of a hidden block back. One that the system does not make accessible again
    /// is lost: nobody may get it.
    fn free_hidden_block(&self, block: HiddenBlock) {
        let (os, (address, bytes)) = (self.arena().os(), self.place_of(&block));
        if let Err(OsError(_)) = os.set_accessible(address, bytes, true) {
            return;
        }
        let kind = if block.is_mapping { Kind::MAPPING } else { Kind::PAGES };
        self.frames().set_kind(Pfn(block.first), 1, kind);
        let object: Object = self.address(Pfn(block.first));
        // SAFETY: the block was allocated, and nobody uses it any more.
        unsafe { self.free_unseen(object) };
    }
}
