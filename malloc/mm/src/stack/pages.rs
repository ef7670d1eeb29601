//! The kernel's `alloc_pages`: blocks of `2^order` frames for callers that need pages, not objects.
//!
//! Such blocks belong to the heap like those of large requests: the same equations hold, and `free`
//! accepts them. But they come from pcp lists and go back there, and some may use reserves.

use super::call::{Entry, Misuse};
use super::instance::{Stack, StackConfig};
use crate::frame::{FRAME_BYTES, Kind, MigrateType, Order, Pfn};
use crate::pcp::{AllocFlags, Page, PageRequest};
use quarry_sys::clear::clear;
use quarry_sys::percpu::{Object, PerCpu};

const BATCH: usize = 64;

/// The options of a request for pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFlags {
    /// The caller cannot wait (`GFP_ATOMIC`): the request may use frames below the min mark and the
    /// reserve for high orders, but causes no reclaim and no growth of a zone.
    pub atomic: bool,
    /// All bytes are 0 (`__GFP_ZERO`).
    pub zeroed: bool,
}

impl PageFlags {
    /// `gfp_to_alloc_flags`, Linux 6.3.
    fn rights(self, order: Order) -> AllocFlags {
        let high_atomic = self.atomic && order > Order::ZERO;
        AllocFlags { min_reserve: self.atomic, non_block: self.atomic, high_atomic }
    }
}

impl<C: StackConfig> Stack<C> {
    /// Fills the front of `out` with blocks of `2^order` frames, aligned to their size; one hold of
    /// a lock serves many blocks. Returns their number, less than `out.len()` only if memory is
    /// short, or 0 if the stack is not ready. O(blocks).
    pub fn alloc_pages(&self, order: Order, flags: PageFlags, out: &mut [Option<Object>]) -> usize {
        if !self.is_ready() {
            return 0;
        }
        let node = self.pages().zones().node_of(self.fast.percpu.current());
        let migratetype = MigrateType::Unmovable;
        let request = PageRequest { order, migratetype, flags: flags.rights(order), node };
        let mut taken = 0;
        while out.len() > 1 && taken < out.len() {
            let mut pages = [Page { pfn: Pfn::NONE, zeroed: false }; BATCH];
            let wanted = &mut pages[..BATCH.min(out.len() - taken)];
            let slot = self.fast.percpu.current();
            match self.pages().alloc_bulk(slot, request, wanted) {
                0 => break,
                count => {
                    for page in &wanted[..count] {
                        out[taken] = Some(self.adopt_pages(*page, order, flags));
                        taken += 1;
                    }
                }
            }
        }
        while taken < out.len() {
            let attempt = || self.pages().alloc(self.fast.percpu.current(), request);
            let again =
                || if flags.atomic { None } else { self.after_reclaim(order.frames(), attempt) };
            let Some(page) = attempt().or_else(again) else { break };
            out[taken] = Some(self.adopt_pages(page, order, flags));
            taken += 1;
        }
        if !flags.atomic {
            self.bound_footprint(taken as u32 * order.frames());
        }
        taken
    }

    fn adopt_pages(&self, page: Page, order: Order, flags: PageFlags) -> Object {
        self.frames().set_link(page.pfn, order.frames());
        self.frames().set_kind(page.pfn, 1, Kind::BARE);
        self.large.blocks.note_allocated();
        let object = self.address(page.pfn);
        if flags.zeroed && !page.zeroed {
            // SAFETY: the block has `order.bytes()` bytes, and only we know it.
            unsafe { clear(object, order.bytes()) };
        }
        object
    }

    /// Frees blocks, many in one hold of a lock; aborts if a block has another order. O(blocks).
    ///
    /// # Safety
    /// The user of the blocks has given them up.
    pub unsafe fn free_pages(&self, pages: &[Object], order: Order) {
        for piece in pages.chunks(BATCH) {
            let mut blocks = [(Pfn::NONE, order); BATCH];
            for (block, object) in blocks.iter_mut().zip(piece) {
                block.0 = self.disown_pages(object.as_ptr(), order);
            }
            self.pages().free_list(self.fast.percpu.current(), &blocks[..piece.len()]);
        }
    }

    /// Takes a block of this order out of the heap; aborts if no such block starts there.
    fn disown_pages(&self, pages: *mut u8, order: Order) -> Pfn {
        let Some(pfn) = self.is_ready().then(|| self.pfn(pages)).flatten() else {
            self.misuse(Entry::PagesFree, pages, Misuse::Foreign)
        };
        let frames = self.frames();
        let is_block = (pages as usize).is_multiple_of(FRAME_BYTES)
            && frames.kind(pfn) == Kind::BARE
            && frames.link(pfn) == order.frames()
            && pfn.is_aligned(order);
        if !is_block {
            self.misuse(Entry::PagesFree, pages, Misuse::NoPages(order));
        }
        frames.set_kind(pfn, 1, Kind::NONE);
        self.large.blocks.note_freed();
        pfn
    }
}
