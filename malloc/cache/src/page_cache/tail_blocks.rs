//! Blocks for pages that a program may overread: memory after such a block can be read.
//!
//! The memory after a pageblock may be unmapped, so a page that may be overread is never the last
//! block of its pageblock. If such a last block were freed at once, the pcp list would hand it out
//! next. So it is set aside until `release` is called, by a trim or at the end of a mapping.
//!
//! Equation: blocks set aside are of the kind `NONE`, charged, and each on the list of its order.

use super::host::Host;
use quarry_mm::frame::{Order, PAGEBLOCK_FRAMES, Pfn};
use quarry_mm::pcp::{Page, PageRequest};
use quarry_mm::stack::StackHost;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::percpu::{PerCpu, SlotIndex};

/// Orders that pages of the cache have: 4 to 64 KiB.
const ORDERS: usize = 5;

const TOGETHER: usize = 32;

/// Blocks that end their pageblocks, by order, chained by their frames' link words.
pub(super) struct TailBlocks {
    first: CountedLock<[Pfn; ORDERS]>,
}

fn ends_pageblock(pfn: Pfn, order: Order) -> bool {
    (pfn.0 + order.frames()).is_multiple_of(PAGEBLOCK_FRAMES)
}

impl TailBlocks {
    pub(super) const fn new() -> Self {
        Self { first: CountedLock::new([Pfn::NONE; ORDERS]) }
    }

    /// Allocates a block after which memory can be read. O(1 + blocks that it sets aside).
    pub(super) fn alloc_for_overread(
        &self,
        host: &impl Host,
        slot: SlotIndex,
        request: PageRequest,
    ) -> Option<Page> {
        let place = usize::from(request.order.get());
        if place >= ORDERS {
            return None;
        }
        loop {
            let block = host.stack().pages().alloc(slot, request)?;
            if !ends_pageblock(block.pfn, request.order) {
                return Some(block);
            }
            let mut first = self.first.lock();
            host.stack().pages().frames().set_link(block.pfn, first[place].0);
            first[place] = block.pfn;
        }
    }

    pub(super) fn release(&self, host: &impl Host) {
        for place in 0..ORDERS {
            let order = Order::new(place as u8);
            let mut next = {
                let mut first = self.first.lock();
                core::mem::replace(&mut first[place], Pfn::NONE)
            };
            while next != Pfn::NONE {
                let (mut blocks, mut count) = ([(Pfn::NONE, order); TOGETHER], 0);
                while next != Pfn::NONE && count < TOGETHER {
                    blocks[count].0 = next;
                    count += 1;
                    next = Pfn(host.stack().pages().frames().link(next));
                }
                host.stack().pages().free_list(host.stack().percpu().current(), &blocks[..count]);
            }
        }
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("page_cache->tail_blocks", &self.first);
    }
}
