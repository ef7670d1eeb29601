//! Tests of the page allocator as a whole.

use super::*;
use quarry_sys::os::FakeOs;

/// A small page allocator over a fake OS.
pub(crate) fn tiny(config: PageConfig, slots: u32) -> PageAllocator {
    let os: &'static FakeOs = Box::leak(Box::new(FakeOs::new(4096)));
    PageAllocator::build(os, &config, slots).expect("the fake OS refuses nothing")
}

/// 64 MiB of address space, one growing node.
pub(crate) const TINY: PageConfig = PageConfig {
    reserve_bytes: 64 << 20,
    limit_frames: u32::MAX,
    initial_frames: 0,
    grow: true,
    nodes: 1,
    node_of_slot: |_| NodeId(0),
    declared_cpus: 2,
    pcp: PcpPolicy::V6_7,
    free_list: FreeListPolicy::OneSection,
};

fn movable(order: u8) -> PageRequest {
    PageRequest {
        order: Order::new(order),
        migratetype: MigrateType::Movable,
        flags: AllocFlags::default(),
        node: NodeId(0),
    }
}

#[test]
fn what_is_taken_comes_back_and_merges() {
    let pages = tiny(TINY, 2);
    let slot = SlotIndex(0);
    let mut taken = Vec::new();
    for round in 0..2500u32 {
        let order = (round % 5) as u8;
        let page = pages.alloc(slot, movable(order)).expect("64 MiB are enough");
        assert!(page.pfn.is_aligned(Order::new(order)), "blocks are aligned to their size");
        assert!(page.zeroed, "fresh memory is known to be zero");
        taken.push((page.pfn, Order::new(order)));
    }
    pages.validate();
    pages.drain_all();
    pages.validate();
    let frames: u32 = taken.iter().map(|(_, order)| order.frames()).sum();
    assert_eq!(pages.zones().budget().used(), frames);
    for (pfn, order) in taken {
        pages.free(slot, pfn, order);
    }
    pages.validate();
    pages.drain_all();
    pages.validate();
    assert_eq!(pages.zones().budget().used(), 0);
}

#[test]
fn exact_requests_give_the_rest_back() {
    let pages = tiny(TINY, 2);
    let slot = SlotIndex(1);
    for count in [1, 3, 5, 8, 100, 513, 1000, 1024] {
        let page = pages.alloc_exact(slot, count, MigrateType::Movable, Order::ZERO).unwrap();
        pages.validate();
        pages.drain_all();
        assert_eq!(pages.zones().budget().used(), count);
        pages.free_exact(slot, page.pfn, count);
        pages.drain_all();
        assert_eq!(pages.zones().budget().used(), 0);
    }
    let page = pages.alloc_exact(slot, 3, MigrateType::Movable, Order::new(9)).unwrap();
    assert!(page.pfn.is_aligned(Order::new(9)));
    pages.free_exact(slot, page.pfn, 3);
    pages.validate();
}
