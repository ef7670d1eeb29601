//! Tests of the per-CPU lists and of the page allocator as a whole.

mod drains;
mod fixed;
#[cfg(not(quarry_model))]
mod listed;
mod misuse;
#[cfg(quarry_model)]
mod model;
mod nodes;
#[cfg(not(quarry_model))]
mod shelves;
mod suite;
mod support;
mod tuning;

use super::*;
use crate::frame::{FrameState, MigrateType, NodeId, Order, Pfn};
use crate::zone::{Zone, largest_blocks};
use fixed::Fixed;
use proptest::prelude::*;
use quarry_sys::os::FakeOs;
use quarry_sys::percpu::SlotIndex;
use support::{Owner, SHORT, build, fake_os, first_word, request, tiny};

/// The default policy on a tiny machine.
const TINY: PageConfig<V6_18> = tiny(V6_18);

suite::suite!(v6_18, V6_18);

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
    assert!(pages.zones().purge(NodeId(0), Order::ZERO, usize::MAX) >= 15_500 << 12);
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
    // The three remaining frames form a block of order 0 and one of order 1, both on the lists now.
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

/// The fake OS allows writes to everything from the start. The real OS faults if code uses a table
/// or a frame before it is mapped.
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
    assert!(pages.zones().purge(NodeId(0), Order::ZERO, usize::MAX) > 0);
    assert_eq!(pages.validate(), Ok(()));
    while let Some(page) = pages.alloc(SlotIndex(0), request(9, MigrateType::Movable)) {
        // If purged memory is reported as zero, it must be zero.
        owner.receive(page, 512);
        if owner.frames() > 100_000 {
            break;
        }
    }
    assert_eq!(pages.validate(), Ok(()));
}
