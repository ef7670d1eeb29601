//! Makes a freed block inaccessible to the program, and accessible again (see `withheld.rs`).

use super::instance::{Stack, StackConfig};
use super::withheld::Block;
use crate::frame::{FRAME_BYTES, FRAME_SHIFT, Pfn};
use core::ptr::NonNull;
use quarry_sys::clock::coarse_ns;
use quarry_sys::os::{Os, OsError};
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::Ordering::Relaxed;

/// Fewest frames of a block that is worth the system calls: 128 KiB, where glibc's `free` makes
/// one, too (`M_MMAP_THRESHOLD`).
pub const LEAST_FRAMES: u32 = 32;
/// Time from one withheld block to the next, 100 ms. The system calls take some 10 us, and faults
/// of pages that are touched again up to 60 us.
const INTERVAL_NS: u64 = 100_000_000;

impl<C: StackConfig> Stack<C> {
    /// Frees a block without an owner, at once or after it was withheld.
    pub fn free_block(&self, pfn: Pfn, frames: u32) {
        let block = Block { pfn, frames, about: () };
        if frames < LEAST_FRAMES || !self.withhold(block) {
            self.free_now(block);
        }
    }

    #[inline]
    pub(super) fn may_withhold(&self, frames: u32) -> bool {
        frames >= LEAST_FRAMES
            && coarse_ns().saturating_sub(self.withheld.since_ns.load(Relaxed)) >= INTERVAL_NS
    }

    fn free_now(&self, block: Block<()>) {
        self.pages().free_exact(self.fast.percpu.current(), block.pfn, block.frames);
    }

    fn withhold(&self, block: Block<()>) -> bool {
        let now = coarse_ns();
        if now.saturating_sub(self.withheld.since_ns.load(Relaxed)) < INTERVAL_NS {
            return false;
        }
        self.withheld.since_ns.store(now, Relaxed);
        if !self.has_small_pages() {
            return false;
        }
        let mut ring = self.withheld.ring.lock();
        let before = ring.pop();
        if let Some(before) = before
            && !self.show(&before)
        {
            ring.push(before);
            return false;
        }
        let is_withheld = self.hide(&block);
        if is_withheld {
            ring.push(block);
        }
        self.withheld.note(&ring);
        drop(ring);
        before.into_iter().for_each(|before| self.free_now(before));
        is_withheld
    }

    /// Frees the withheld block, if the system shows it again; returns whether a block was freed.
    pub(super) fn free_withheld(&self) -> bool {
        if !self.withheld.is_some() {
            return false;
        }
        let mut ring = self.withheld.ring.lock();
        let block = ring.pop();
        if let Some(block) = block
            && self.show(&block)
        {
            self.withheld.note(&ring);
            drop(ring);
            self.free_now(block);
            return true;
        }
        if let Some(block) = block {
            ring.push(block);
        }
        self.withheld.is_stuck.store(true, Relaxed);
        false
    }

    /// Returns whether a page of the system is a frame; a larger page may hold other blocks, too.
    pub fn has_small_pages(&self) -> bool {
        self.arena().os().page_size() == FRAME_BYTES
    }

    /// Makes a block inaccessible, without pages; returns whether any part is inaccessible.
    pub fn hide<T>(&self, block: &Block<T>) -> bool {
        let (os, address, bytes) = self.place(block);
        match os.set_accessible(address, bytes, false) {
            Ok(()) => {
                // If the system refuses, the pages stay in memory.
                let _ = os.purge(address, bytes);
                true
            }
            // The call may have changed a part of the block before the process had too many
            // mappings. Unless this can be undone, the block must not be handed out.
            Err(OsError(libc::ENOMEM)) => !self.show(block),
            Err(_) => false,
        }
    }

    /// Makes a block accessible again; returns whether this succeeded.
    pub fn show<T>(&self, block: &Block<T>) -> bool {
        let (os, address, bytes) = self.place(block);
        os.set_accessible(address, bytes, true).is_ok()
    }

    fn place<T>(&self, block: &Block<T>) -> (&'static dyn Os, NonNull<u8>, usize) {
        (self.arena().os(), self.address(block.pfn), (block.frames as usize) << FRAME_SHIFT)
    }
}
