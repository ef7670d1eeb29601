//! Pages after which memory can be read.
//!
//! The frames of a pageblock are mapped together, but the memory after it may not be mapped. So a
//! page that may be overread is never the last block of its pageblock. The page allocator would
//! return such a block again as soon as it is freed, because its lists give the latest one first;
//! so the block is set aside until memory goes back.

use super::cache::PageCacheRef;
use super::host::Host;
use super::tail_blocks::ORDERS;
use quarry_mm::frame::{Order, PAGEBLOCK_FRAMES, Pfn};
use quarry_mm::pcp::{Page, PageRequest};
use quarry_sys::percpu::SlotIndex;

/// Blocks that are freed together.
const TOGETHER: usize = 32;

/// Returns whether a block is the last one of its pageblock.
fn ends_pageblock(pfn: Pfn, order: Order) -> bool {
    (pfn.0 + order.frames()).is_multiple_of(PAGEBLOCK_FRAMES)
}

impl<H: Host> PageCacheRef<'_, H> {
    /// Allocates a block after which memory can be read. O(1) except for blocks that are set aside:
    /// at most one of each pageblock.
    pub(super) fn alloc_for_overread(self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        let place = usize::from(request.order.get());
        if place >= ORDERS {
            return None;
        }
        loop {
            let block = self.host.pages().alloc(slot, request)?;
            if !ends_pageblock(block.pfn, request.order) {
                return Some(block);
            }
            let mut first = self.tables.tail_blocks.first.lock();
            self.host.pages().frames().set_link(block.pfn, first[place].0);
            first[place] = block.pfn;
        }
    }

    /// Gives back the blocks that are set aside; returns whether there were any. O(blocks).
    pub(super) fn release_tail_blocks(self) -> bool {
        let mut has_freed = false;
        for place in 0..ORDERS {
            let order = Order::new(place as u8);
            let mut next = {
                let mut first = self.tables.tail_blocks.first.lock();
                core::mem::replace(&mut first[place], Pfn::NONE)
            };
            while next != Pfn::NONE {
                let (mut blocks, mut count) = ([(Pfn::NONE, order); TOGETHER], 0);
                while next != Pfn::NONE && count < TOGETHER {
                    blocks[count].0 = next;
                    count += 1;
                    next = Pfn(self.host.pages().frames().link(next));
                }
                self.host.pages().free_list(self.host.slot(), &blocks[..count]);
                has_freed = true;
            }
        }
        has_freed
    }
}
