//! Tests of the per-CPU lists and of the page allocator as a whole.

mod eras;
#[cfg(not(quarry_model))]
mod listed;
mod misuse;
#[cfg(quarry_model)]
mod model;
mod nodes;
mod suite;
mod tuning;

use super::*;
use crate::frame::{FrameState, MigrateType, NodeId, Order, Pfn};
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::SlotIndex;
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
        declared_frames: 0,
        cache_slice_bytes: CACHE_SLICE_BYTES,
        faults: FaultPolicy { populate: true, huge: true },
        policy,
        lists_extents: true,
        free_list: FreeListPolicy::OneSection,
    }
}

/// The same, for tests that change the policy.
pub(crate) const TINY: PageConfig<Chosen> = tiny(Chosen::V6_18(V6_18));

/// The policy of document 000.
pub(super) const HIGHMARK: V2016 = V2016 { raises_high: true };

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

/// The blocks of a caller: they do not overlap, and the caller writes to each of their frames.
pub(super) struct Owner<'a, P = Chosen> {
    pages: &'a PageAllocator<P>,
    /// First frame -> number of frames.
    owned: BTreeMap<u32, u32>,
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

    /// Takes a page into possession: no other block of the owner may overlap it, and if it is
    /// reported as zero it is.
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

    /// Gives up the block with number `which`, counted around.
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

#[test]
fn what_is_taken_comes_back_and_merges() {
    let pages = build(TINY, &RingSizes::default());
    let slot = SlotIndex(0);
    let mut owner = Owner::new(&pages);
    for round in 0..2500u32 {
        let order = (round % 5) as u8;
        let page = pages.alloc(slot, request(order, MigrateType::Movable)).expect("64 MiB do");
        assert!(page.pfn.is_aligned(Order::new(order)), "blocks are aligned to their size");
        assert!(page.zeroed, "fresh memory is known to be zero");
        owner.receive(page, 1 << order);
    }
    assert_eq!(pages.validate(), Ok(()));
    pages.drain_all();
    assert_eq!(pages.zones().budget().used(), owner.frames());
    while let Some((pfn, frames)) = owner.surrender(0) {
        pages.free(slot, pfn, Order::covering(frames));
    }
    assert_eq!(pages.validate(), Ok(()));
    pages.drain_all();
    assert_eq!(pages.validate(), Ok(()));
    assert_eq!(pages.zones().budget().used(), 0);
    assert!(pages.purge(NodeId(0), Order::ZERO, usize::MAX) >= 15_500 << 12);
    let page = pages.alloc(slot, request(9, MigrateType::Movable)).unwrap();
    assert!(page.zeroed, "purged memory is known to be zero");
    owner.receive(page, 512);
}

#[test]
fn the_rest_of_an_exact_request_keeps_its_zeros_and_costs_no_zone_lock() {
    let pages = build(TINY, &RingSizes::default());
    let slot = SlotIndex(1);
    let first = pages.alloc_exact(slot, 5, MigrateType::Movable, Order::ZERO).unwrap();
    let locked = pages.zones().zone(NodeId(0)).lock_stats().acquisitions;
    // The rest of eight frames: one of order 0, one of order 1, both on the lists now.
    for (order, offset) in [(0, 5), (1, 6)] {
        let page = pages.alloc(slot, request(order, MigrateType::Movable)).unwrap();
        assert_eq!(page, Page { pfn: first.pfn.plus(offset), zeroed: true });
    }
    pages.free_exact(slot, first.pfn, 5);
    assert_eq!(pages.zones().zone(NodeId(0)).lock_stats().acquisitions, locked);
    let (sections, frees) = {
        let counters = pages.pcp_counters(slot);
        (counters.critical_sections, counters.frees)
    };
    assert_eq!((sections, frees), (2, 4), "two sections, of two blocks each");
    let aligned = pages.alloc_exact(slot, 3, MigrateType::Movable, Order::new(9)).unwrap();
    assert!(aligned.pfn.is_aligned(Order::new(9)));
    assert_eq!(pages.validate(), Ok(()));
}

#[test]
fn mappings_and_pages_share_one_limit() {
    let pages = build(PageConfig { limit_frames: 1000, ..TINY }, &RingSizes::default());
    let slot = SlotIndex(0);
    assert!(pages.zones().budget().charge_mapping(900));
    assert!(!pages.zones().budget().charge_mapping(101));
    let mut taken = Vec::new();
    while let Some(page) = pages.alloc(slot, request(0, MigrateType::Unmovable)) {
        taken.push(page.pfn);
    }
    assert_eq!(taken.len(), 100, "what a slot hoards is taken back before a request fails");
    assert_eq!(pages.validate(), Ok(()));
    pages.zones().budget().uncharge_mapping(900);
    assert!(pages.alloc(slot, request(3, MigrateType::Unmovable)).is_some());
    assert_eq!(pages.validate(), Ok(()));
}

#[test]
fn a_large_exact_request_costs_the_zone_one_section_and_its_free_one() {
    let pages = build(PageConfig { lists_extents: false, ..TINY }, &RingSizes::default());
    let (slot, zone) = (SlotIndex(0), pages.zones().zone(NodeId(0)));
    let warm = pages.alloc_exact(slot, 33, MigrateType::Movable, Order::ZERO).unwrap();
    pages.free_exact(slot, warm.pfn, 33);
    let before = zone.lock_stats().acquisitions;
    let page = pages.alloc_exact(slot, 33, MigrateType::Movable, Order::ZERO).unwrap();
    assert_eq!(zone.lock_stats().acquisitions - before, 1);
    assert_eq!(pages.zones().budget().used(), 33, "the rest is free");
    pages.free_exact(slot, page.pfn, 33);
    assert_eq!(zone.lock_stats().acquisitions - before, 2);
    assert_eq!(pages.zones().budget().used(), 0);
    assert_eq!(pages.validate(), Ok(()));
}

#[test]
fn an_exact_request_grows_into_what_is_free_behind_it() {
    let pages = build(TINY, &RingSizes::default());
    let slot = SlotIndex(0);
    let first = pages.alloc_extent_with_room(slot, 40);
    assert_eq!(first, None, "no run is kept yet");
    let first = pages.alloc_exact(slot, 40, MigrateType::Movable, Order::ZERO).unwrap().pfn;
    let next = Page { pfn: first.plus(40), zeroed: true };
    assert_eq!(pages.alloc_extent_with_room(slot, 40), Some(next));
    assert!(!pages.extend_exact(slot, first, 40, 41), "somebody is there");
    assert!(pages.extend_exact(slot, first.plus(40), 40, 256));
    assert!(!pages.extend_exact(slot, first.plus(40), 256, 257), "too large for a run");
    assert_eq!(pages.zones().budget().used(), 40 + 256);
    pages.free_exact(slot, first, 40);
    pages.free_exact(slot, first.plus(40), 256);
    pages.drain_all();
    assert_eq!(pages.zones().budget().used(), 0);
    assert_eq!(pages.validate(), Ok(()));
}

/// The fake OS lets everything be written from the start; the real one faults where a table or a
/// frame is used before it was committed.
#[test]
#[cfg(not(miri))]
fn nothing_is_touched_before_it_is_committed() {
    let config = PageConfig { reserve_bytes: 1 << 30, nodes: 2, ..TINY };
    let pages = PageAllocator::build(&quarry_sys::os::Linux, &config, 4).expect("1 GiB to reserve");
    let mut owner = Owner::new(&pages);
    for round in 0..400u32 {
        let (slot, order) = (SlotIndex(round % 4), [0, 1, 3, 6, 9, 10][round as usize % 6]);
        let node = NodeId((round / 6 % 2) as u8);
        let asked = PageRequest { node, ..request(order, MigrateType::Movable) };
        owner.receive(pages.alloc(slot, asked).expect("1 GiB do"), 1 << order);
        if round % 3 == 2 {
            let (pfn, frames) = owner.surrender(round as usize).expect("three are owned");
            pages.free(slot, pfn, Order::covering(frames));
        }
    }
    pages.drain_all();
    assert!(pages.purge(NodeId(0), Order::ZERO, usize::MAX) > 0);
    assert_eq!(pages.validate(), Ok(()));
    while let Some(page) = pages.alloc(SlotIndex(0), request(9, MigrateType::Movable)) {
        // Purged memory that is reported as zero must be zero.
        owner.receive(page, 512);
        if owner.frames() > 100_000 {
            break;
        }
    }
    assert_eq!(pages.validate(), Ok(()));
}
