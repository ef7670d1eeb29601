//! Blocks of frames, and how they lie in pageblocks.

use crate::frame::{
    FRAME_BYTES, MAX_ORDER, Memory, Order, PAGEBLOCK_FRAMES, Pageblock, Pfn, page_bytes,
};
use quarry_sys::os::Os;

/// Number of orders.
pub const ORDERS: usize = MAX_ORDER as usize + 1;

/// A block that is, or is about to be, free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its first frame.
    pub pfn: Pfn,
    /// Its size.
    pub order: Order,
    /// True if every byte is known to be zero.
    pub zeroed: bool,
}

impl Block {
    #[inline]
    pub(super) fn dirty(self) -> u32 {
        if self.zeroed { 0 } else { self.order.frames() }
    }
}

/// Same as [`page_bytes`], in frames.
pub(crate) fn page_frames(os: &dyn Os) -> u32 {
    (page_bytes(os) / FRAME_BYTES) as u32
}

/// Calls `act` for each pageblock of a block, with offset and order of the block's part in it.
#[inline]
pub(super) fn for_each_part(
    memory: &Memory,
    pfn: Pfn,
    order: Order,
    act: impl Fn(&Pageblock, u32, Order),
) {
    let part = order.min(Order::PAGEBLOCK);
    act(memory.pageblocks().of(pfn), pfn.0 % PAGEBLOCK_FRAMES, part);
    if order > Order::PAGEBLOCK {
        act(memory.pageblocks().of(pfn.plus(PAGEBLOCK_FRAMES)), 0, part);
    }
}

/// The free blocks of a pageblock from `from` on; each is looked up when the iterator reaches it.
pub(super) fn free_blocks(memory: &Memory, from: Pfn) -> impl Iterator<Item = Block> {
    let (mut next, end) = (from, from.pageblock().first().plus(PAGEBLOCK_FRAMES));
    core::iter::from_fn(move || {
        while next < end {
            let (pfn, state) = (next, memory.frames().state(next));
            let order = if state.is_in_zone() { state.order() } else { Order::ZERO };
            next = pfn.plus(order.frames());
            if state.is_in_zone() {
                return Some(Block { pfn, order, zeroed: state.is_zeroed() });
            }
        }
        None
    })
}

/// The largest aligned blocks that `count` frames from `first` on form, in ascending order.
pub fn largest_blocks(first: Pfn, count: u32) -> impl Iterator<Item = (Pfn, Order)> + Clone {
    let (mut pfn, end) = (first, first.plus(count));
    core::iter::from_fn(move || {
        let left = end.0 - pfn.0;
        let fits = left.checked_ilog2()?.min(pfn.0.trailing_zeros()).min(u32::from(MAX_ORDER));
        let block = (pfn, Order::new(fits as u8));
        pfn = pfn.plus(block.1.frames());
        Some(block)
    })
}
