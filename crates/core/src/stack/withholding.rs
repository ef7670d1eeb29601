//! How a freed block is taken out of the program's reach, and how it comes back (see `withheld`).

use super::config::StackConfig;
use super::instance::Stack;
use super::withheld::Block;
use crate::frame::{FRAME_SHIFT, Pfn};
use core::ptr::NonNull;
use quarry_sys::clock::coarse_ns;
use quarry_sys::os::{Os, OsError};
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::Ordering::Relaxed;

/// Fewest frames of a block that is worth the calls: 128 KiB, from where on glibc's `free` makes
/// one of its own at first (`M_MMAP_THRESHOLD`).
const LEAST_FRAMES: u32 = 32;
/// From one block to the next: 100 ms. The calls take some 10 us, and the pages that are touched
/// again up to 60 us.
const INTERVAL_NS: u64 = 100_000_000;

impl<C: StackConfig> Stack<C> {
    /// Frees a block that nobody owns any more, at once or after it has been out of reach for a
    /// while.
    pub(super) fn free_block(&self, pfn: Pfn, frames: u32) {
        let block = Block { pfn, frames };
        if frames < LEAST_FRAMES || !self.withhold(block) {
            self.free_now(block);
        }
    }

    fn free_now(&self, Block { pfn, frames }: Block) {
        self.pages().free_exact(self.fast.percpu.current(), pfn, frames);
    }

    fn withhold(&self, block: Block) -> bool {
        let now = coarse_ns();
        if now.saturating_sub(self.withheld.since_ns.load(Relaxed)) < INTERVAL_NS {
            return false;
        }
        self.withheld.since_ns.store(now, Relaxed);
        // Nobody knows how large the system's pages are where they are larger than ours.
        if self.arena().os().page_size() > 1 << FRAME_SHIFT {
            return false;
        }
        let mut held = self.withheld.block.lock();
        let before = *held;
        if before.is_some_and(|before| !self.show(before)) {
            return false;
        }
        let is_withheld = self.hide(block);
        self.withheld.set(&mut held, is_withheld.then_some(block));
        drop(held);
        before.into_iter().for_each(|before| self.free_now(before));
        is_withheld
    }

    /// Frees the block that is withheld, if there is one and the system lets us have it back;
    /// returns whether it did.
    pub(super) fn free_withheld(&self) -> bool {
        if !self.withheld.is_some() {
            return false;
        }
        let mut held = self.withheld.block.lock();
        let Some(block) = held.filter(|block| self.show(*block)) else {
            self.withheld.is_stuck.store(true, Relaxed);
            return false;
        };
        self.withheld.set(&mut held, None);
        drop(held);
        self.free_now(block);
        true
    }

    /// Makes a block inaccessible, which leaves memory then; returns whether it is, even in part.
    fn hide(&self, block: Block) -> bool {
        let (os, address, bytes) = self.place(block);
        match os.set_accessible(address, bytes, false) {
            Ok(()) => {
                // Refused, it stays in memory.
                let _ = os.purge(address, bytes);
                true
            }
            // Of a block that the program has made several mappings of, some may have changed
            // before there were too many: what cannot be had back must not be handed out.
            Err(OsError(libc::ENOMEM)) => !self.show(block),
            Err(_) => false,
        }
    }

    /// Makes a block accessible again; returns whether the system has done it.
    fn show(&self, block: Block) -> bool {
        let (os, address, bytes) = self.place(block);
        os.set_accessible(address, bytes, true).is_ok()
    }

    fn place(&self, block: Block) -> (&'static dyn Os, NonNull<u8>, usize) {
        (self.arena().os(), self.address(block.pfn), (block.frames as usize) << FRAME_SHIFT)
    }
}
