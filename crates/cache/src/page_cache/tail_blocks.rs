//! Blocks that are set aside, because pages that may be overread cannot use them (see `overread`).
//!
//! Equation: blocks set aside are of the kind `NONE`, charged, and each on the list of its order.

use quarry_mm::frame::Pfn;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;

/// Orders that pages of the cache have: 4 to 64 KiB.
pub(super) const ORDERS: usize = 5;

/// Blocks that end their pageblocks, by order, chained by their frames' link words.
pub(super) struct TailBlocks {
    pub(super) first: CountedLock<[Pfn; ORDERS]>,
}

impl TailBlocks {
    pub(super) const fn new() -> Self {
        Self { first: CountedLock::new([Pfn::NONE; ORDERS]) }
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("page_cache->tail_blocks", &self.first);
    }
}
