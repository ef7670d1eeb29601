//! A large block that was freed a moment ago, kept out of the program's reach.
//!
//! Whoever reads or writes memory that it has freed finds what is there now, and mostly goes on. So
//! the block that is freed first in a while is made inaccessible, and only then, when the next such
//! block takes its place, goes to the page allocator: its stale pointers fault meanwhile. That is
//! up to three system calls for one of the blocks freed within 100 ms, and one to have it back;
//! a program that frees large blocks all the time keeps its speed, and one that rarely does finds
//! its errors.
//!
//! What is withheld has no pages in memory, but counts as used. A request that finds nothing else
//! gets it back.

use crate::frame::Pfn;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// At most one block.
pub(super) struct Withheld {
    /// When the last one was withheld, or the system refused that. A lost update withholds one
    /// more.
    pub(super) since_ns: AtomicU64,
    /// Frames of it, for those who only ask.
    frames: AtomicU32,
    /// The system has refused to make it accessible.
    pub(super) is_stuck: AtomicBool,
    pub(super) block: CountedLock<Option<Block>>,
}

#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) pfn: Pfn,
    pub(super) frames: u32,
}

impl Withheld {
    pub(super) const fn new() -> Self {
        Self {
            since_ns: AtomicU64::new(0),
            frames: AtomicU32::new(0),
            is_stuck: AtomicBool::new(false),
            block: CountedLock::new(None),
        }
    }

    /// Visits the lock of the block.
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("withheld->block", &self.block);
    }

    /// Whether a block is withheld. Takes no lock.
    pub(super) fn is_some(&self) -> bool {
        self.frames() > 0
    }

    /// Whether a block is withheld that can probably be had back. Takes no lock.
    pub(super) fn is_there_for_others(&self) -> bool {
        self.is_some() && !self.is_stuck.load(Relaxed)
    }

    /// Withholds another block, or none; nothing has been refused of it yet.
    pub(super) fn set(&self, held: &mut Option<Block>, block: Option<Block>) {
        *held = block;
        self.frames.store(block.map_or(0, |block| block.frames), Relaxed);
        self.is_stuck.store(false, Relaxed);
    }

    /// Frames that are withheld. Takes no lock.
    pub(super) fn frames(&self) -> u32 {
        self.frames.load(Relaxed)
    }
}
