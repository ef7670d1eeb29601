//! Blocks of pages from the list of the running CPU, and to it: a malloc or a free that takes no
//! lock, enters no gate and notifies no instrument.
//!
//! A process that forks in the middle has the block on a list or in the hands of the thread; in the
//! latter case the child has lost it, as it loses an object. While an instrument is on, no request
//! goes this way.

use super::instance::{Stack, StackConfig};
use crate::frame::Kind;
use crate::heap::{LARGEST_BLOCK, classes, frames_of};
use quarry_sys::clear::clear;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::Ordering;

impl<C: StackConfig> Stack<C> {
    /// A block for `size` bytes, if the running CPU has one listed. O(1), and O(size) for what has
    /// to be cleared.
    #[inline]
    pub fn alloc_listed(&self, size: usize, zeroed: bool) -> Option<Object> {
        // With an instrument on, or before the stack is ready, the small end is 0.
        let is_block = size > classes::LARGEST && size <= LARGEST_BLOCK;
        if !is_block || self.fast.small_end.load(Ordering::Acquire) == 0 {
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

    /// Frees a block to the list of the running CPU; returns false, and does nothing, where it is
    /// not a block or the list does not want it. Any address may be given, also null. O(1).
    ///
    /// # Safety
    /// If an allocation starts at `address`, its user has given it up.
    #[inline]
    pub unsafe fn free_listed(&self, address: *mut u8) -> bool {
        let Some((pfn, count)) = self.block_fast(address) else { return false };
        let frames = self.frames();
        if self.may_withhold(count) {
            return false;
        }
        // A thread that takes it from the list finds it without an owner.
        frames.set_kind(pfn, 1, Kind::NONE);
        if !self.pages().free_listed(self.fast.percpu.current(), pfn, count) {
            frames.set_kind(pfn, 1, Kind::PAGES);
            return false;
        }
        true
    }
}
