//! The frames of a machine. Each block is charged to the group that takes it, until the block is
//! given back; that group also pays for objects in the block that other groups use. Fake nodes and
//! control groups charged memory in the same way in document 002's time.
//!
//! Equation: `used of a group = frames of the blocks that it pays for <= limit`.

use anyhow::{Result, anyhow};
use quarry_eras::pages::{Chosen, Machine};
use quarry_mm::frame::{FRAME_BYTES, FRAME_SHIFT, MigrateType, NodeId, Order, Pfn};
use quarry_mm::heap::options::StackOptions;
use quarry_mm::pcp::{Page, PageAllocator, PageConfig, PageRequest};
use quarry_mm::slab::SlabPages;
use quarry_sys::os::Linux;
use quarry_sys::percpu::SlotIndex;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// A job's group; `None` is the kernel, which has no limit.
pub(super) type Payer = Option<usize>;

/// The document's machines have 16 CPUs and 4 nodes.
pub(super) const CPUS: u32 = 16;
const NODES: u8 = 4;

pub(super) struct Charged {
    pub(super) pages: PageAllocator<Chosen>,
    /// Frames of the blocks that each group pays for.
    used: RefCell<Vec<u32>>,
    /// The maximum number of frames that a group may pay for.
    limit: u32,
    /// The group that pays for the blocks taken from now on.
    pub(super) payer: Cell<Payer>,
    payers: RefCell<HashMap<Pfn, Payer>>,
    pub(super) slabs: Cell<u32>,
}

impl Charged {
    /// Builds a memory of `mib` MiB or a few more, whose groups have at most `limit` frames each.
    pub(super) fn build(mib: u32, limit: u32) -> Result<Self> {
        let frames = mib.next_multiple_of(8) << (20 - FRAME_SHIFT);
        // Frames without memory, present from the start.
        let mut config = PageConfig {
            // Twice their size, because an allocator skips some.
            reserve_bytes: 2 * frames as usize * FRAME_BYTES,
            initial_frames: frames / u32::from(NODES),
            grow: false,
            nodes: 1,
            node_of_slot: |_| NodeId(0),
            policy: Chosen::named("order0").expect("a policy"),
            ..StackOptions::default().pages
        };
        Machine { cpus: CPUS, frames, nodes: NODES }.declare(&mut config);
        let pages = PageAllocator::build(&Linux, &config, CPUS);
        Ok(Self {
            pages: pages.map_err(|error| anyhow!("the page lists cannot be built: {error:?}"))?,
            used: RefCell::default(),
            limit,
            payer: Cell::default(),
            payers: RefCell::default(),
            slabs: Cell::new(0),
        })
    }

    pub(super) fn group(&self) -> Payer {
        self.used.borrow_mut().push(0);
        Some(self.used.borrow().len() - 1)
    }

    /// The number of frames that all groups pay for, and that of the group that pays for most.
    pub(super) fn used(&self) -> (u32, u32) {
        let used = self.used.borrow();
        (used.iter().sum(), used.iter().max().copied().unwrap_or(0))
    }

    /// Takes one frame for the group that pays now. It asks for the node of the slot's CPU.
    pub(super) fn page(&self, slot: SlotIndex) -> Option<Pfn> {
        let (order, flags) = (Order::ZERO, Default::default());
        let node = self.pages.zones().node_of(slot);
        let request = PageRequest { order, migratetype: MigrateType::Movable, flags, node };
        Some(self.take(slot, request)?.pfn)
    }

    /// Takes a block; `None` if the group may not have it, or the machine has none.
    fn take(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        let (payer, frames) = (self.payer.get(), request.order.frames());
        if payer.is_some_and(|group| self.used.borrow()[group] + frames > self.limit) {
            return None;
        }
        let page = self.pages.alloc(slot, request)?;
        self.payers.borrow_mut().insert(page.pfn, payer);
        payer.into_iter().for_each(|group| self.used.borrow_mut()[group] += frames);
        Some(page)
    }

    pub(super) fn put(&self, slot: SlotIndex, pfn: Pfn, order: Order) {
        let payer = self.payers.borrow_mut().remove(&pfn).expect("a block in use has a payer");
        payer.into_iter().for_each(|group| self.used.borrow_mut()[group] -= order.frames());
        self.pages.free(slot, pfn, order);
    }

    /// Checks that every block came back, and that the equations of the memory hold.
    pub(super) fn check_at_end(&self) -> Result<()> {
        self.pages.drain_all();
        self.pages.validate().map_err(|broken| anyhow!("{broken}"))?;
        let ((left, _), slabs) = (self.used(), self.slabs.get());
        anyhow::ensure!(left == 0 && slabs == 0, "{left} frames are charged, {slabs} in slabs");
        Ok(())
    }
}

impl SlabPages for Charged {
    fn alloc(&self, slot: SlotIndex, request: PageRequest) -> Option<Page> {
        let page = self.take(slot, request)?;
        self.slabs.set(self.slabs.get() + request.order.frames());
        Some(page)
    }

    fn free(&self, slot: SlotIndex, pfn: Pfn, order: Order) {
        self.slabs.set(self.slabs.get() - order.frames());
        self.put(slot, pfn, order);
    }

    fn free_list(&self, slot: SlotIndex, pages: &[(Pfn, Order)]) {
        pages.iter().for_each(|(pfn, order)| self.free(slot, *pfn, *order));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The maximum number of frames that each group may pay for.
    const MAX: u32 = 40;

    proptest! {
        #[test]
        fn a_group_pays_for_the_sum_of_its_blocks(
            ops in proptest::collection::vec(
                (0usize..3, 0u8..4, any::<bool>(), 0usize..64), 0..300,
            ),
        ) {
            let memory = Charged::build(64, MAX).expect("there is memory");
            let groups = [(); 3].map(|()| memory.group());
            let mut blocks: Vec<(usize, Pfn, Order)> = Vec::new();
            let naive = |blocks: &[(usize, Pfn, Order)], of: usize| -> u32 {
                blocks.iter().filter(|block| block.0 == of).map(|block| block.2.frames()).sum()
            };
            let slot = SlotIndex(0);
            for (payer, order, takes, which) in ops {
                // The group that paid stops paying, even if another group gives the block back.
                memory.payer.set(groups[payer]);
                let order = Order::new(order);
                if takes {
                    let (migratetype, flags) = (MigrateType::Unmovable, Default::default());
                    let node = memory.pages.zones().node_of(slot);
                    let page = memory.alloc(slot, PageRequest { order, migratetype, flags, node });
                    let fits = naive(&blocks, payer) + order.frames() <= MAX;
                    prop_assert_eq!(page.is_some(), fits);
                    blocks.extend(page.map(|page| (payer, page.pfn, order)));
                } else if !blocks.is_empty() {
                    let (_, pfn, order) = blocks.swap_remove(which % blocks.len());
                    memory.free_list(slot, &[(pfn, order)]);
                }
                let used = [0, 1, 2].map(|of| naive(&blocks, of));
                prop_assert_eq!(&memory.used.borrow()[..], &used[..]);
                prop_assert_eq!(memory.slabs.get(), used.iter().sum::<u32>());
            }
            blocks.into_iter().for_each(|(_, pfn, order)| memory.free(slot, pfn, order));
            prop_assert!(memory.check_at_end().is_ok());
        }
    }
}
