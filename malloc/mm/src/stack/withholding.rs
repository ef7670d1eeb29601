//! Makes a freed block inaccessible to the program, and accessible again (see `withheld.rs`).

use super::instance::{Stack, StackConfig};
use super::withheld::Block;
use crate::frame::Pfn;
use quarry_sys::clock::coarse_ns;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::Ordering::Relaxed;

/// Fewest frames of a block that is worth the system calls: 128 KiB. From this size on, glibc's
/// `free` makes a system call too (`M_MMAP_THRESHOLD`).
pub const LEAST_FRAMES: u32 = 32;
/// Minimum time from one withheld block to the next: 100 ms. The system calls for a block take some
/// 10 us, and the page faults of its next user up to 60 us.
const INTERVAL_NS: u64 = 100_000_000;

impl<C: StackConfig> Stack<C> {
    /// Frees a block without an owner, at once or after it was withheld.
    pub(super) fn free_block(&self, pfn: Pfn, frames: u32) {
        let block = Block { pfn, frames, about: () };
        if frames < LEAST_FRAMES || self.arena().keeps() || !self.withhold(block) {
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
        let mut ring = self.withheld.ring.lock();
        let before = ring.pop();
        if let Some(before) = before
            && !before.show(self.arena())
        {
            ring.push(before);
            return false;
        }
        let is_withheld = block.hide(self.arena());
        if is_withheld {
            ring.push(block);
        }
        self.withheld.note(&ring);
        drop(ring);
        before.into_iter().for_each(|before| self.free_now(before));
        is_withheld
    }

    /// Frees the withheld block, if it can be made accessible; returns whether a block was freed.
    pub(super) fn free_withheld(&self) -> bool {
        if !self.withheld.is_some() {
            return false;
        }
        let mut ring = self.withheld.ring.lock();
        let block = ring.pop();
        if let Some(block) = block
            && block.show(self.arena())
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
}
