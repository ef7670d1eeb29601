//! Large blocks that were freed a moment ago, kept out of the program's reach.
//!
//! A program that reads or writes memory that it has freed finds what is there now, and mostly goes
//! on. So the first block freed in a while becomes inaccessible, and goes to the page allocator
//! only when the next such block takes its place: stale pointers to it fault until then. That is up
//! to three system calls for one of the blocks freed within 100 ms, and one to get it back; a
//! program that frees large blocks all the time keeps its speed, and one that rarely does finds its
//! errors. Checks withhold more blocks, in a ring of their own.
//!
//! A withheld block has no pages in memory, but counts as used. A request that finds nothing else
//! gets it.

use crate::frame::Pfn;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A block, and the data that its ring keeps about it.
#[derive(Clone, Copy, Debug)]
pub struct Block<T> {
    /// Its first frame.
    pub pfn: Pfn,
    /// How many it has; none in an empty entry.
    pub frames: u32,
    /// The ring's note about it.
    pub about: T,
}

/// Up to `MOST` blocks, as a ring: the next one takes the place that was filled first.
///
/// Equation: `frames = sum of the frames of all blocks`; an entry with 0 frames is empty. A new
/// ring is all zero bytes where `T` is, as a stack is at first.
pub struct Ring<T, const MOST: usize> {
    blocks: [Block<T>; MOST],
    next: usize,
    frames: u64,
}

impl<T: Copy, const MOST: usize> Ring<T, MOST> {
    /// An empty ring, whose entries hold `nothing`.
    pub const fn new(nothing: T) -> Self {
        Self {
            blocks: [Block { pfn: Pfn(0), frames: 0, about: nothing }; MOST],
            next: 0,
            frames: 0,
        }
    }

    /// Takes a block in, and returns the one whose place it takes. O(1).
    pub fn push(&mut self, block: Block<T>) -> Option<Block<T>> {
        let place = self.next % MOST;
        self.next = (place + 1) % MOST;
        self.frames += u64::from(block.frames);
        let before = core::mem::replace(&mut self.blocks[place], block);
        self.frames -= u64::from(before.frames);
        (before.frames > 0).then_some(before)
    }

    /// Takes a block out. O(blocks).
    pub fn pop(&mut self) -> Option<Block<T>> {
        let place = self.blocks.iter_mut().find(|block| block.frames > 0)?;
        let block = *place;
        place.frames = 0;
        self.frames -= u64::from(block.frames);
        Some(block)
    }

    /// The block that has this frame. O(blocks).
    pub fn find(&self, pfn: Pfn) -> Option<&Block<T>> {
        self.blocks.iter().find(|block| (block.pfn.0..block.pfn.0 + block.frames).contains(&pfn.0))
    }

    /// Frames of all blocks.
    pub fn frames(&self) -> u64 {
        self.frames
    }
}

/// The ring of a stack without checks: one block.
pub(super) type OneBlock = Ring<(), 1>;

/// At most one block.
pub(super) struct Withheld {
    /// The time when the last block was withheld, or the system refused that. A lost update
    /// withholds one more block.
    pub(super) since_ns: AtomicU64,
    /// Frames of it, readable without the lock.
    frames: AtomicU32,
    /// True if the system has refused to make it accessible.
    pub(super) is_stuck: AtomicBool,
    pub(super) ring: CountedLock<OneBlock>,
}

impl Withheld {
    pub(super) const fn new() -> Self {
        Self {
            since_ns: AtomicU64::new(0),
            frames: AtomicU32::new(0),
            is_stuck: AtomicBool::new(false),
            ring: CountedLock::new(Ring::new(())),
        }
    }

    /// Visits the lock of the block.
    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("withheld->block", &self.ring);
    }

    /// Returns whether a block is withheld. Takes no lock.
    pub(super) fn is_some(&self) -> bool {
        self.frames() > 0
    }

    /// Returns whether a block is withheld that can probably be freed. Takes no lock.
    pub(super) fn is_there_for_others(&self) -> bool {
        self.is_some() && !self.is_stuck.load(Relaxed)
    }

    /// Records what the ring holds now; the system has refused nothing of it yet.
    pub(super) fn note(&self, ring: &OneBlock) {
        self.frames.store(ring.frames() as u32, Relaxed);
        self.is_stuck.store(false, Relaxed);
    }

    /// Frames that are withheld. Takes no lock.
    pub(super) fn frames(&self) -> u32 {
        self.frames.load(Relaxed)
    }
}
