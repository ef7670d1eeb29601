//! A large block that was freed a moment ago, kept out of the program's reach.
//!
//! Whoever reads or writes memory that it has freed finds what is there now, and mostly goes on. So
//! the block that is freed first in a while is made inaccessible, and only then, when the next such
//! block takes its place, goes to the page allocator: its stale pointers fault meanwhile. That is
//! two system calls for one of the blocks that are freed within 100 ms, and two to have them back;
//! a program that frees large blocks all the time keeps its speed, and one that rarely does finds
//! its errors.
//!
//! What is withheld has no pages in memory, but counts as used. A request that finds nothing else
//! gets it back.

use super::{Stack, StackConfig};
use crate::frame::{FRAME_SHIFT, Pfn};
use quarry_sys::clock::coarse_ns;
use quarry_sys::lock::CountedLock;
use quarry_sys::percpu::PerCpu;
use quarry_sys::primitive::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Fewest frames of a block that is worth the calls: 128 KiB, from where on glibc's `free` makes
/// one of its own at first (`M_MMAP_THRESHOLD`).
const LEAST_FRAMES: u32 = 32;
/// From one block to the next: 100 ms. The calls take some 10 us, and the pages that are touched
/// again up to 60 us.
const INTERVAL_NS: u64 = 100_000_000;

/// At most one block.
pub(super) struct Withheld {
    /// When the last one was withheld, or the system refused that. A lost update withholds one
    /// more.
    since_ns: AtomicU64,
    /// Whether there is one, for those who only ask.
    is_some: AtomicBool,
    block: CountedLock<Option<Block>>,
}

#[derive(Clone, Copy)]
struct Block {
    pfn: Pfn,
    frames: u32,
}

impl Withheld {
    pub(super) const fn new() -> Self {
        Self {
            since_ns: AtomicU64::new(0),
            is_some: AtomicBool::new(false),
            block: CountedLock::new(None),
        }
    }

    /// Whether a block is withheld. Takes no lock.
    pub(super) fn is_some(&self) -> bool {
        self.is_some.load(Relaxed)
    }

    fn replace(&self, block: Option<Block>) -> Option<Block> {
        let mut held = self.block.lock();
        self.is_some.store(block.is_some(), Relaxed);
        core::mem::replace(&mut *held, block)
    }
}

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
        let (os, address) = (self.arena().os(), self.address(block.pfn));
        let bytes = (block.frames as usize) << FRAME_SHIFT;
        // Nobody knows how large the system's pages are where they are larger than ours.
        if os.page_size() > 1 << FRAME_SHIFT || os.set_accessible(address, bytes, false).is_err() {
            return false;
        }
        // Refused, they stay in memory.
        let _ = os.purge(address, bytes);
        if let Some(before) = self.withheld.replace(Some(block)) {
            self.hand_back(before);
        }
        true
    }

    /// Frees the block that is withheld, if there is one; returns whether there was.
    pub(super) fn free_withheld(&self) -> bool {
        if !self.withheld.is_some() {
            return false;
        }
        let block = self.withheld.replace(None);
        block.is_some_and(|block| self.hand_back(block))
    }

    /// Where the system refuses, the block stays as it is for good.
    fn hand_back(&self, block: Block) -> bool {
        let bytes = (block.frames as usize) << FRAME_SHIFT;
        let os = self.arena().os();
        let is_back = os.set_accessible(self.address(block.pfn), bytes, true).is_ok();
        if is_back {
            self.free_now(block);
        }
        is_back
    }
}
