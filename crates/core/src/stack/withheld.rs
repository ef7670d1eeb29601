//! A large block that was freed a moment ago, kept out of the program's reach.
//!
//! A program that reads or writes memory that it has freed finds whatever is there now, and mostly
//! goes on. So the first block freed in a while becomes inaccessible, and goes to the page
//! allocator only when the next such block takes its place: stale pointers to it fault meanwhile.
//! That is up to three system calls for one of the blocks freed within 100 ms, and one to get it
//! back; a program that frees large blocks all the time keeps its speed, and one that rarely does
//! finds its errors.
//!
//! A withheld block has no pages in memory, but counts as used. A request that finds nothing else
//! gets it.

use crate::frame::Pfn;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// At most one block.
pub(super) struct Withheld {
    /// When the last one was withheld, or the system refused that. A lost update withholds one
    /// more.
    pub(super) since_ns: AtomicU64,
    /// Frames of it, readable without the lock.
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

    /// Returns whether a block is withheld. Takes no lock.
    pub(super) fn is_some(&self) -> bool {
        self.frames() > 0
    }

    /// Returns whether a block is withheld that can probably be freed. Takes no lock.
    pub(super) fn is_there_for_others(&self) -> bool {
        self.is_some() && !self.is_stuck.load(Relaxed)
    }

    /// Records that another block is withheld, or none; the system has refused nothing of it yet.
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
