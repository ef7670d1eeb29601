//! Pages behind which memory can be read.
//!
//! The frames of a pageblock are mapped together, but what lies behind it may not be mapped at all.
//! So a page with slack is never the last block of its pageblock. Such a block comes again as soon
//! as it is freed, because lists give the latest first; so it is set aside instead, until memory
//! goes back.

use super::aside::ORDERS;
use super::cache::PageCacheRef;
use super::host::Host;
use quarry_mm::frame::{Order, PAGEBLOCK_FRAMES, Pfn};
use quarry_mm::pcp::{Page, PageRequest};
use quarry_sys::percpu::SlotIndex;

/// Blocks that go back together.
const TOGETHER: usize = 32;

/// Returns whether no frame of the same pageblock lies behind a block.
fn ends_pageblock(pfn: Pfn, order: Order) -> bool {
    (pfn.0 + order.frames()).is_multiple_of(PAGEBLOCK_FRAMES)
}

impl<H: Host> PageCacheRef<'_, H> {
    /// A block behind which memory can be read. O(1) but for blocks that are set aside: at most one
    /// of each pageblock.
    pub(super) fn alloc_with_slack(self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        let place = usize::from(request.order.get());
        if place >= ORDERS {
            return None;
        }
        loop {
            let block = self.host.pages().alloc(slot, request)?;
            if !ends_pageblock(block.pfn, request.order) {
                return Some(block);
            }
            let mut first = self.tables.aside.first.lock();
            self.host.pages().frames().set_link(block.pfn, first[place].0);
            first[place] = block.pfn;
        }
    }

    /// Gives back the blocks that are set aside; returns whether there were any. O(blocks).
    pub(super) fn release_aside(self) -> bool {
        let mut has_freed = false;
        for place in 0..ORDERS {
            let order = Order::new(place as u8);
            let mut next = {
                let mut first = self.tables.aside.first.lock();
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
