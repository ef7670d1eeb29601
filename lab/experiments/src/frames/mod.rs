//! Allocators of frames by themselves, with nothing behind the frames: the zone, the page lists in
//! front of it, and LLFree where its shared object is there.
//!
//! ```text
//! quarry  the zone under its lock, and the page lists of a policy
//! llfree  LLFree through its C interface
//! state   which frames are in use when a sample begins
//! sample  a sample: its state, its pattern, its tasks
//! ```
//!
//! Another allocator is an implementation of `Frames`, and its arm in `sample` and in `variant` of
//! `experiments/zone.rs`.

mod llfree;
mod quarry;
mod sample;
mod state;

pub(crate) use quarry::{allocator, config};
pub(crate) use sample::{FramesSample, Pattern, Variant};
pub(crate) use state::State;

/// Orders that samples ask for: up to a pageblock.
pub(crate) const ORDERS: u8 = 10;

/// An allocator of frames. Tasks call it at once, each with a number of its own.
trait Frames: Sync {
    /// Takes a block of `order`; returns its first frame, counted from the start of the memory.
    fn get(&self, task: usize, order: u8) -> Option<u32>;

    /// Gives a block back.
    fn put(&self, task: usize, first: u32, order: u8);

    /// Free frames, those that tasks keep for themselves among them, once its own equations have
    /// been checked. No task is at work.
    fn free_frames(&self) -> Result<u64, String>;
}
