//! Takes blocks from the running CPU's pcp lists, and frees to them: no lock, gate or instrument.
//!
//! If another thread forks while this code runs, the block is on a list, or this thread holds it.
//! In the latter case the child loses the block, like an object in use by a thread that it lacks.

use super::instance::{Stack, StackConfig};
use crate::frame::{FRAME_BYTES, Kind};
use crate::heap::{LARGEST_BLOCK, classes, frames_of};
use quarry_sys::clear::clear;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::Ordering;

impl<C: StackConfig> Stack<C> {
    /// A block for `size` bytes, if the running CPU's lists have one. O(1), or O(size) to clear it.
    #[inline]
    pub fn alloc_listed(&self, size: usize, zeroed: bool) -> Option<Object> {
        // With an instrument on, or before the stack is ready, `small_end` is 0.
        let is_block = size > classes::LARGEST && size <= LARGEST_BLOCK;
        let is_open = self.fast.small_end.load(Ordering::Acquire) != 0
            || cfg!(feature = "heaps") && self.instruments.are_only_groups();
        if !is_block || !is_open {
            return None;
        }
        let frames = frames_of(size)?;
        let pfn = self.pages().alloc_listed(self.fast.percpu.current(), frames)?;
        self.frames().set_link(pfn, frames);
        self.frames().set_kind(pfn, 1, Kind::PAGES);
        let object = self.address(pfn);
        if zeroed {
            // SAFETY: the block has at least `size` bytes, and only we know it.
            unsafe { clear(object, size) };
        }
        Some(object)
    }

    /// Frees a block to the running CPU's list, after [`FastPath::free`](super::FastPath::free) has
    /// refused it as of the kind [`Kind::PAGES`]. Returns false, and does nothing, if no block
    /// starts there or the list refuses it. O(1).
    ///
    /// # Safety
    /// If an allocation starts at `address`, its user has given it up.
    #[inline]
    pub unsafe fn free_listed(&self, address: *mut u8) -> bool {
        let (pfn, frames) = (self.fast.pfn(address), self.frames());
        let count = frames.link(pfn);
        if address as usize & (FRAME_BYTES - 1) != 0 || self.may_withhold(count) {
            return false;
        }
        // Clears the kind before the block is listed: from then on another thread may take it.
        frames.set_kind(pfn, 1, Kind::NONE);
        if !self.pages().free_listed(self.fast.percpu.current(), pfn, count) {
            frames.set_kind(pfn, 1, Kind::PAGES);
            return false;
        }
        true
    }
}
