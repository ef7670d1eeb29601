//! A page allocator on a fake system, and a caller that records what it owns. The tests of other
//! eras' policies include this file too, so it uses only items of its parent module.

use super::*;
use std::collections::BTreeMap;

/// 64 MiB of address space, one growing node, all else as in the default stack.
pub(super) const fn tiny<P>(policy: P) -> PageConfig<P> {
    PageConfig {
        reserve_bytes: 64 << 20,
        limit_frames: u32::MAX,
        initial_frames: 0,
        grow: true,
        nodes: 1,
        node_of_slot: |_| NodeId(0),
        declared_cpus: 2,
        declared: None,
        cache_slice_bytes: CACHE_SLICE_BYTES,
        faults: FaultPolicy { populate: true, huge: true },
        policy,
        lists_extents: true,
        free_list: FreeListPolicy::OneSection,
    }
}

/// Lists so short that they overflow all the time.
pub(super) const SHORT: RingSizes = RingSizes { single: 32, small: 8, huge: 2 };

pub(super) fn fake_os() -> &'static FakeOs {
    Box::leak(Box::new(FakeOs::new(4096)))
}

pub(super) fn build<P: PagePolicy>(config: PageConfig<P>, rings: &RingSizes) -> PageAllocator<P> {
    let distance = |one: NodeId, other: NodeId| one.0.abs_diff(other.0).into();
    PageAllocator::build_with(fake_os(), &config, 4, distance, rings)
        .expect("the fake OS refuses nothing")
}

pub(super) fn request(order: u8, migratetype: MigrateType) -> PageRequest {
    PageRequest {
        order: Order::new(order),
        migratetype,
        flags: AllocFlags::default(),
        node: NodeId(0),
    }
}

/// The blocks of a caller. They must not overlap; the caller writes to each of their frames.
pub(super) struct Owner<'a, P> {
    pages: &'a PageAllocator<P>,
    /// Maps the first frame of each block to its number of frames.
    pub(super) owned: BTreeMap<u32, u32>,
}

impl<'a, P: PagePolicy> Owner<'a, P> {
    pub(super) fn new(pages: &'a PageAllocator<P>) -> Self {
        Self { pages, owned: BTreeMap::new() }
    }

    pub(super) fn frames(&self) -> u32 {
        self.owned.values().sum()
    }

    pub(super) fn len(&self) -> usize {
        self.owned.len()
    }

    /// Adds a page to the owned blocks. It must overlap no other, and be zero if it is reported as
    /// zero.
    pub(super) fn receive(&mut self, page: Page, frames: u32) {
        let end = page.pfn.0 + frames;
        let below = self.owned.range(..end).next_back();
        if let Some((first, count)) = below {
            assert!(first + count <= page.pfn.0, "{:?} was handed out twice", page.pfn);
        }
        for pfn in page.pfn.0..end {
            assert_eq!(self.pages.frames().state(Pfn(pfn)), FrameState::USED, "state of F{pfn:x}");
            let word = first_word(self.pages, Pfn(pfn), 0xdead_beef);
            assert!(!page.zeroed || word == 0, "F{pfn:x} is said to be zero");
        }
        self.owned.insert(page.pfn.0, frames);
    }

    /// Gives up the block with number `which`, modulo the number of blocks.
    pub(super) fn surrender(&mut self, which: usize) -> Option<(Pfn, u32)> {
        let first = *self.owned.keys().nth(which.checked_rem(self.owned.len())?)?;
        self.owned.remove(&first).map(|frames| (Pfn(first), frames))
    }
}

/// Writes the first word of a frame and returns what it was.
#[expect(unsafe_code, reason = "only a look at the memory itself shows whether it is zero")]
pub(super) fn first_word<P: PagePolicy>(pages: &PageAllocator<P>, pfn: Pfn, value: u64) -> u64 {
    let address = pages.arena().address(pfn).cast::<u64>();
    // SAFETY: the fake OS maps the whole arena writable, frames are aligned, and the caller owns
    // this one.
    unsafe { address.replace(value) }
}
