//! Two nodes.

use super::*;
use crate::frame::MigrateType::Movable;

#[test]
fn the_local_node_comes_first_and_blocks_go_home() {
    let config = PageConfig { nodes: 2, initial_frames: 2048, grow: false, ..TINY };
    let pages = build(config, &RingSizes::default());
    let node_of = |pfn: Pfn| pages.zones().memory().pageblocks().of(pfn).tag().node();
    let slot = SlotIndex(0);
    let mut taken = Vec::new();
    let mut first_foreign = None;
    while let Some(page) = pages.alloc(slot, request(0, Movable)) {
        if node_of(page.pfn) == Some(NodeId(1)) && first_foreign.is_none() {
            first_foreign = Some(taken.len() as u32);
        }
        taken.push(page.pfn);
    }
    let marks = pages.zones().zone(NodeId(0)).marks();
    let first_foreign = first_foreign.expect("the second node helps out");
    assert!(first_foreign >= 2048 - marks.low - 1, "after {first_foreign} pages");
    assert!(taken.len() as u32 >= 2 * (2048 - marks.min - 1), "{} pages", taken.len());
    for pfn in taken {
        pages.free(slot, pfn, Order::ZERO);
    }
    assert_eq!(pages.validate(), Ok(()));
    for node in [NodeId(0), NodeId(1)] {
        assert!(pages.pcp_tuning(slot, node).count > 0, "each node has a list in each slot");
    }
    pages.drain_all();
    for node in [NodeId(0), NodeId(1)] {
        assert_eq!(pages.zones().zone(node).free(), 2048);
    }
}

#[test]
fn a_growing_node_grows_before_it_goes_abroad() {
    let pages = build(PageConfig { nodes: 2, ..TINY }, &RingSizes::default());
    for _ in 0..5 {
        let request = PageRequest { node: NodeId(1), ..request(9, Movable) };
        pages.alloc(SlotIndex(0), request).expect("64 MiB do");
    }
    assert_eq!(pages.zones().zone(NodeId(0)).managed(), 0);
    assert!(pages.zones().zone(NodeId(1)).managed() >= 5 * 512);
}

#[test]
fn a_list_of_blocks_of_two_nodes_is_one_section_for_each() {
    let config = PageConfig { nodes: 2, initial_frames: 2048, grow: false, ..TINY };
    let pages = build(config, &RingSizes::default());
    let slot = SlotIndex(0);
    let mut list = Vec::new();
    for round in 0..10u8 {
        let node = NodeId(round % 2);
        let page = pages.alloc(slot, PageRequest { node, ..request(0, Movable) }).unwrap();
        list.push((page.pfn, Order::ZERO));
    }
    let before = pages.pcp_counters(slot).critical_sections;
    pages.free_list(slot, &list);
    assert_eq!(pages.pcp_counters(slot).critical_sections - before, 2);
    assert_eq!(pages.validate(), Ok(()));
}

#[test]
fn the_reserve_serves_those_with_rights_and_high_orders_refill_it() {
    // With 256 MiB, 1 % is more than a pageblock, so there is a reserve.
    let config = PageConfig {
        reserve_bytes: 512 << 20,
        initial_frames: 64 << 10,
        grow: false,
        ..tiny(Fixed { batch: 1, high: 1 })
    };
    let pages = build(config, &RingSizes::default());
    let (slot, zone) = (SlotIndex(0), pages.zones().zone(NodeId(0)));
    let usual = request(0, Movable);
    while pages.alloc(slot, usual).is_some() {}
    assert_eq!(zone.free(), zone.marks().min, "usual requests end at the min mark");
    assert!(pages.alloc(slot, usual).is_none());
    let with = |flags| PageRequest { flags, ..usual };
    let high = AllocFlags { min_reserve: true, ..AllocFlags::default() };
    while pages.alloc(slot, with(high)).is_some() {}
    assert_eq!(zone.free(), zone.marks().min / 2, "half of the mark for __GFP_HIGH");
    let atomic = AllocFlags { non_block: true, ..high };
    while pages.alloc(slot, with(atomic)).is_some() {}
    assert_eq!(zone.free(), zone.marks().min / 8 * 3, "37.5 % of it is left to atomic requests");
    assert_eq!(pages.validate(), Ok(()));
}

#[test]
fn a_high_order_atomic_request_below_the_low_mark_keeps_its_pageblock_for_its_like() {
    let config =
        PageConfig { reserve_bytes: 512 << 20, initial_frames: 64 << 10, grow: false, ..TINY };
    let pages = build(config, &RingSizes::default());
    let (slot, zone) = (SlotIndex(0), pages.zones().zone(NodeId(0)));
    let mut blocks = Vec::new();
    while zone.watermark_ok(Order::new(5), crate::zone::Mark::Low, AllocFlags::default()) {
        blocks.push(pages.alloc(slot, request(5, Movable)).unwrap().pfn);
    }
    let flags = AllocFlags { high_atomic: true, min_reserve: true, non_block: true };
    let atomic = PageRequest { flags, ..request(5, Movable) };
    let page = pages.alloc(slot, atomic).expect("the reserve of the min mark");
    assert_eq!(zone.reserved_high_atomic(), 512);
    pages.free(slot, page.pfn, Order::new(5));
    assert_eq!(pages.validate(), Ok(()));
    // Requests without the right leave the reserved pageblock alone until no other memory is left.
    let mut usual = 0;
    while zone.reserved_high_atomic() > 0 && pages.alloc(slot, request(5, Movable)).is_some() {
        usual += 1;
        assert!(usual < 4096, "the zone is not endless");
    }
    assert_eq!(zone.reserved_high_atomic(), 0, "given up before a request fails");
    assert_eq!(pages.validate(), Ok(()));
}
