//! Large blocks that were freed and fault at every access, until later ones take their places.

use super::flags::CheckFlags;
use super::record::Shape;
use super::track::Tracked;

/// Most blocks that are hidden. Each takes two of the mappings that the kernel allows a process
/// (65,530 by default).
pub const MOST_HIDDEN: usize = 32;

/// One block.
#[derive(Clone, Copy, Debug)]
pub struct HiddenBlock {
    /// The number of its first frame.
    pub first: u32,
    /// Its frames.
    pub frames: u32,
    /// Whether it is a mapping.
    pub is_mapping: bool,
    /// How the object lay in it.
    pub shape: Shape,
    /// Who allocated it, and who freed it.
    pub tracks: [Option<Tracked>; 2],
}

impl HiddenBlock {
    /// No block. All zero bytes, as a stack is at first.
    const NONE: Self = Self {
        first: 0,
        frames: 0,
        is_mapping: false,
        shape: Shape { size: 0, front: 0, flags: CheckFlags::NONE },
        tracks: [None; 2],
    };

    fn some(self) -> Option<Self> {
        (self.frames > 0).then_some(self)
    }
}

/// The blocks, as a ring: the next one takes the place that was filled first.
///
/// Equation: `frames = sum of the frames of all blocks`, and one without frames is none.
pub struct Hidden {
    blocks: [HiddenBlock; MOST_HIDDEN],
    next: usize,
    frames: u64,
}

impl Hidden {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { blocks: [HiddenBlock::NONE; MOST_HIDDEN], next: 0, frames: 0 }
    }

    /// Takes a block in, and returns the one whose place it takes. O(1).
    pub fn push(&mut self, block: HiddenBlock) -> Option<HiddenBlock> {
        let place = self.next % MOST_HIDDEN;
        self.next = (place + 1) % MOST_HIDDEN;
        self.frames += u64::from(block.frames);
        let before = core::mem::replace(&mut self.blocks[place], block);
        self.frames -= u64::from(before.frames);
        before.some()
    }

    /// Takes a block out. O(blocks).
    pub fn pop(&mut self) -> Option<HiddenBlock> {
        let place = self.blocks.iter_mut().find(|block| block.frames > 0)?;
        let block = core::mem::replace(place, HiddenBlock::NONE);
        self.frames -= u64::from(block.frames);
        Some(block)
    }

    /// The block that has this frame. O(blocks).
    #[must_use]
    pub fn find(&self, frame: u32) -> Option<&HiddenBlock> {
        self.blocks.iter().find(|block| (block.first..block.first + block.frames).contains(&frame))
    }

    /// Frames of all of them.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames
    }
}

impl Default for Hidden {
    fn default() -> Self {
        Self::new()
    }
}
