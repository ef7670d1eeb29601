//! Frame allocators on frames without memory: the zone alone, the zone with pcp lists, and LLFree
//! if its shared object is present.
//!
//! ```text
//! quarry  the zone under its lock, and the page lists of a policy
//! llfree  LLFree through its C interface
//! sample  a sample: its state, its pattern, its tasks
//! ```
//!
//! Another allocator needs an implementation of `Frames`, and an arm in `sample` and in `variant`
//! of `experiments/zone.rs`.

mod llfree;
mod quarry;
mod sample;

pub(crate) use quarry::{allocator, config};
pub(crate) use sample::{FramesSample, Pattern, State, Variant};

/// Number of orders that a sample may have: 0 to 9; a block of order 9 is a pageblock.
pub(crate) const ORDERS: u8 = 10;

/// An allocator of frames. Tasks call it concurrently, each with its own number.
trait Frames: Sync {
    /// Takes a block of `order`; returns its first frame, counted from the start of the memory.
    fn get(&self, task: usize, order: u8) -> Option<u32>;

    fn put(&self, task: usize, first: u32, order: u8);

    /// Checks the allocator's equations; returns the number of free frames, including those that
    /// tasks keep. No task may use the allocator meanwhile.
    fn free_frames(&self) -> Result<u64, String>;
}
