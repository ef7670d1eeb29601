//! A freed large block that is inaccessible to the program, so that uses of stale pointers fault.
//!
//! Of the large blocks that a program frees, at most one in 100 ms becomes inaccessible. It goes to
//! the page allocator when the next such block takes its place. To hide a block takes up to 3
//! system calls, to show it again one. So a program that often frees large blocks keeps its speed,
//! and one that rarely frees them finds its errors. The checks withhold more blocks.
//!
//! A withheld block has no memory, but counts as used. A request gets this block if it finds no
//! other memory.

use crate::frame::{Arena, FRAME_SHIFT, Pfn, page_bytes};
use core::ptr::NonNull;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsError;
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A block in a [`Ring`].
#[derive(Clone, Copy, Debug)]
pub struct Block<T> {
    /// The first frame of the block.
    pub pfn: Pfn,
    /// Number of frames of the block; 0 in an empty entry.
    pub frames: u32,
    /// A note about the block.
    pub about: T,
}

impl<T> Block<T> {
    /// Makes the pages of the system inside the block inaccessible, and purges them; returns
    /// whether any is inaccessible now.
    pub fn hide(&self, arena: &Arena) -> bool {
        let Some((address, bytes)) = self.pages(arena) else { return false };
        match arena.os().set_accessible(address, bytes, false) {
            Ok(()) => {
                // If the system refuses, the block's pages stay in memory.
                let _ = arena.os().purge(address, bytes);
                true
            }
            // The call may have changed a part of the block before the process reached its limit of
            // mappings. Unless `show` undoes this, the block must not be handed out.
            Err(OsError(libc::ENOMEM)) => !self.show(arena),
            Err(_) => false,
        }
    }

    /// Makes the block accessible again; returns whether this succeeded.
    pub fn show(&self, arena: &Arena) -> bool {
        let pages = self.pages(arena);
        pages.is_none_or(|(address, bytes)| arena.os().set_accessible(address, bytes, true).is_ok())
    }

    /// The pages of the system that lie inside the block. A page at its edge may hold others' data.
    #[inline(never)]
    fn pages(&self, arena: &Arena) -> Option<(NonNull<u8>, usize)> {
        let (page, start) = (page_bytes(arena.os()), arena.address(self.pfn));
        let before = start.align_offset(page);
        let bytes = ((self.frames as usize) << FRAME_SHIFT).checked_sub(before)? & !(page - 1);
        // SAFETY: `before` bytes of the block lie before the page.
        (bytes > 0).then(|| (unsafe { start.add(before) }, bytes))
    }
}

/// Up to `MOST` blocks: a new block takes the place of the oldest one.
///
/// Equation: `frames = sum of the frames of all blocks`. A new ring is all zero bytes if the value
/// `nothing` is all zero bytes.
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

    /// Adds a block, and returns the block whose place it takes. O(1).
    pub fn push(&mut self, block: Block<T>) -> Option<Block<T>> {
        let place = self.next % MOST;
        self.next = (place + 1) % MOST;
        self.frames += u64::from(block.frames);
        let before = core::mem::replace(&mut self.blocks[place], block);
        self.frames -= u64::from(before.frames);
        (before.frames > 0).then_some(before)
    }

    /// Removes a block. O(blocks).
    pub fn pop(&mut self) -> Option<Block<T>> {
        let place = self.blocks.iter_mut().find(|block| block.frames > 0)?;
        let block = *place;
        place.frames = 0;
        self.frames -= u64::from(block.frames);
        Some(block)
    }

    /// The block that contains a frame. O(blocks).
    pub fn find(&self, pfn: Pfn) -> Option<&Block<T>> {
        self.blocks.iter().find(|block| (block.pfn.0..block.pfn.0 + block.frames).contains(&pfn.0))
    }

    /// Frames of all blocks.
    pub fn frames(&self) -> u64 {
        self.frames
    }
}

pub(super) type OneBlock = Ring<(), 1>;

/// The withheld block of a stack without checks.
pub(super) struct Withheld {
    /// The time of the last attempt to withhold a block. A lost update withholds one more block.
    pub(super) since_ns: AtomicU64,
    /// Frames of the block, readable without the lock.
    frames: AtomicU32,
    /// True if the system has refused to make the block accessible.
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

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("withheld->block", &self.ring);
    }

    /// Returns whether a block is withheld. Takes no lock.
    pub(super) fn is_some(&self) -> bool {
        self.frames() > 0
    }

    /// Returns whether a request can probably get a withheld block. Takes no lock.
    pub(super) fn is_there_for_others(&self) -> bool {
        self.is_some() && !self.is_stuck.load(Relaxed)
    }

    pub(super) fn note(&self, ring: &OneBlock) {
        self.frames.store(ring.frames() as u32, Relaxed);
        self.is_stuck.store(false, Relaxed);
    }

    /// Frames of the withheld block. Takes no lock.
    pub(super) fn frames(&self) -> u32 {
        self.frames.load(Relaxed)
    }
}
