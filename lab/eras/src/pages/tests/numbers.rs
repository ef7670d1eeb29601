//! Differences between the eras in numbers: list sizes on a declared machine, drains, and watermark
//! checks.

use super::MigrateType::{Movable, Reclaimable, Unmovable};
use super::*;
use quarry_mm::zone::Mark;

/// The policy of document 000.
const HIGHMARK: V2016 = V2016 { raises_high: true };
const V5_14: super::V5_14 = super::V5_14 { frees_high: false };
const V5_18: super::V5_14 = super::V5_14 { frees_high: true };

const GIB: u32 = 1 << 18;

/// Bounds of lists that tune themselves, on a machine with large caches.
fn tuned(batch: u32, high_min: u32, high_max: u32) -> Sizes {
    Sizes { batch, high_min, high_max, kept: batch }
}

/// A zone for policies to look at.
fn surroundings(zone: &Zone, high_max: u32) -> PolicyContext<'_> {
    PolicyContext { sizes: tuned(63, 252, high_max), zone }
}

fn some_zones() -> PageAllocator<Chosen> {
    build(PageConfig { initial_frames: 4096, grow: false, ..TINY }, &RingSizes::default())
}

/// The list sizes that a policy computes for a machine with 64 GiB and 32 CPUs.
fn on_the_machine(policy: &impl PagePolicy, nodes: u8) -> Sizes {
    policy.sizes(Machine { cpus: 32, frames: 64 * GIB, nodes }.size_inputs())
}

#[test]
fn a_declared_machine_has_no_other_bound_than_its_memory() {
    // min_free_kbytes 32,768: min 8,192 frames, gap 16,777, low 24,969; an eighth is 2,097,152.
    assert_eq!(on_the_machine(&V6_7, 1), tuned(63, 780, 65_536));
    assert_eq!(on_the_machine(&V6_18, 1), tuned(63, 780, 65_536));
    assert_eq!(on_the_machine(&V5_14, 1), Sizes::fixed(63, 780));
    assert_eq!(on_the_machine(&HIGHMARK, 1), Sizes::fixed(31, 341));
    // Four nodes divide memory and CPUs alike.
    assert_eq!(on_the_machine(&V6_7, 4), tuned(63, 780, 65_536));
    // If no machine is declared, a growing zone counts as 1 GiB. Quarry's own bound of 2,048 pages
    // then applies too, but only under `v6.18` and `v6.18-wide`.
    let grows = SizeInputs::of(0, true, 1, 2);
    assert_eq!(V6_7.sizes(grows), tuned(63, 643, 16_384));
    assert_eq!(V6_18.sizes(grows), tuned(63, 643, 2048));
}

#[test]
fn lists_of_a_declared_machine_have_room_for_its_bounds() {
    for policy in [Chosen::V6_7(V6_7), Chosen::V6_18(V6_18)] {
        let config = PageConfig { policy, reserve_bytes: 512 << 20, ..TINY };
        let mut config = PageConfig { initial_frames: 80 << 10, grow: false, ..config };
        Machine { cpus: 32, frames: 64 * GIB, nodes: 1 }.declare(&mut config);
        let pages = PageAllocator::build(fake_os(), &config, 1).expect("nothing is refused");
        let slot = SlotIndex(0);
        let alloc = |_| pages.alloc(slot, request(0, Movable)).expect("320 MiB").pfn;
        let taken: Vec<Pfn> = (0..70_000).map(alloc).collect();
        taken.iter().for_each(|pfn| pages.free(slot, *pfn, Order::ZERO));
        let count = pages.pcp_tuning(slot, NodeId(0)).count;
        assert!(count > 4096, "{count} pages on one list, more than without a machine");
        assert_eq!(pages.validate(), Ok(()));
    }
}

#[test]
fn declared_nodes_share_a_machine_that_has_fewer() {
    let mut config = TINY;
    Machine { cpus: 16, frames: 1 << 24, nodes: 4 }.declare(&mut config);
    assert_eq!((config.nodes, config.declared_cpus), (4, 16));
    let inputs = config.declared.expect("a machine with memory");
    assert_eq!((inputs.managed, inputs.cpus), (1 << 22, 4), "a quarter of 64 GiB, 4 CPUs of 16");
    let pages = build(config, &RingSizes::default());
    let nodes = [0, 1, 2, 3].map(|slot| pages.zones().node_of(SlotIndex(slot)));
    assert_eq!(nodes, [0, 1, 2, 3].map(NodeId), "slots are dealt to nodes in turn");
    for node in nodes {
        let asked = PageRequest { node, ..request(0, Movable) };
        let page = pages.alloc(SlotIndex(u32::from(node.0)), asked).expect("64 MiB do");
        let tag = pages.zones().memory().pageblocks().of(page.pfn).tag();
        assert_eq!(tag.node(), Some(node), "each node has a zone of its own");
    }
    assert_eq!(pages.validate(), Ok(()));
    // With the machine's own number of nodes, the nodes stay those of the topology.
    let mut same = PageConfig { node_of_slot: |_| NodeId(0), nodes: 2, ..TINY };
    Machine { cpus: 4, frames: 0, nodes: 2 }.declare(&mut same);
    assert_eq!((same.node_of_slot)(SlotIndex(1)), NodeId(0));
    assert!(same.declared.is_none(), "no memory declared: a growing zone's");
}

#[test]
fn a_small_slice_of_the_cache_keeps_no_batch() {
    let keeps = |cache_slice_bytes| {
        let machine = Machine { cpus: 2, frames: GIB, nodes: 1 };
        let inputs = SizeInputs { cache_slice_bytes, ..machine.size_inputs() };
        V6_7.sizes(inputs).kept
    };
    // More than three batches: 189 pages, 756 KiB.
    assert_eq!([756 << 10, 760 << 10].map(keeps), [0, 63]);
}

#[test]
fn v5_14_refills_are_of_one_size_and_drains_double() {
    let pages = some_zones();
    let near = surroundings(pages.zones().zone(NodeId(0)), 252);
    let mut tuning = Tuning { alloc_factor: 5, ..Tuning::default() };
    let refill = |order| V5_14.refill(&mut tuning, near, Order::new(order));
    assert_eq!([0, 0, 1, 2, 3, 9].map(refill), [63, 63, 31, 15, 7, 2]);
    let mut tuning = Tuning::default();
    let mut drains = Vec::new();
    for _ in 0..600 {
        tuning.count += 1;
        let drain = V5_14.after_free(&mut tuning, near, Order::ZERO);
        if drain > 0 {
            drains.push(drain);
            tuning.count -= drain;
        }
    }
    // The drains take 63 pages, then twice as many, then all but one batch: 252 - 63.
    assert_eq!(drains, [63, 126, 189]);
    assert_eq!(tuning.free_factor, 2);
    V5_14.before_alloc(&mut tuning);
    assert_eq!(tuning.free_factor, 1, "an allocation halves it");
}

#[test]
fn v5_14_keeps_four_batches_while_memory_is_reclaimed() {
    let pages = some_zones();
    let zone = pages.zones().zone(NodeId(0));
    let near = surroundings(zone, 780);
    let mut tuning = Tuning { count: 300, ..Tuning::default() };
    assert_eq!(V5_14.after_free(&mut tuning, near, Order::ZERO), 0);
    let active = pages.zones().reclaiming(|_| true);
    assert_eq!(V5_14.after_free(&mut tuning, near, Order::ZERO), 63);
    tuning.count = 251;
    assert_eq!(V5_14.after_free(&mut tuning, near, Order::ZERO), 0);
    let another = pages.zones().reclaiming(|_| true);
    drop(active);
    assert!(zone.is_reclaim_active(), "two reclaims: the mark stays until both have ended");
    drop(another);
    assert!(!zone.is_reclaim_active());
    drop(pages.zones().reclaiming(|zone| zone.is_below_high()));
    assert!(!zone.is_reclaim_active(), "a zone that was not chosen");
}

#[test]
fn only_v5_18_lets_all_go_for_high_orders_behind_a_drain() {
    let pages = some_zones();
    let near = surroundings(pages.zones().zone(NodeId(0)), 780);
    let after = |policy: super::V5_14, free_factor, order| {
        let mut tuning = Tuning { count: 500, free_factor, ..Tuning::default() };
        policy.after_free(&mut tuning, near, Order::new(order))
    };
    assert_eq!(after(V5_14, 1, 1), 0);
    assert_eq!([0, 1, 2, 3, 9].map(|order| after(V5_18, 1, order)), [0, 500, 500, 500, 0]);
    assert_eq!(after(V5_18, 0, 1), 0, "not without a drain before");
}

#[test]
fn a_row_of_high_orders_is_shorter_in_6_7() {
    let pages = some_zones();
    let near = surroundings(pages.zones().zone(NodeId(0)), 2048);
    fn row(policy: &impl PagePolicy, near: PolicyContext<'_>) -> (u32, u32) {
        let mut tuning = Tuning { high: 2048, ..Tuning::default() };
        for frees in 1.. {
            tuning.count += 2;
            let drain = policy.after_free(&mut tuning, near, Order::new(1));
            if drain > 0 {
                return (frees, drain);
            }
        }
        unreachable!("a row ends")
    }
    // free_count before the free is 63 in 6.7, and 63 + 252 / 2 = 189 since 6.16.
    assert_eq!(row(&V6_7, near), (33, 66));
    assert_eq!(row(&V6_18, near), (96, 192));
    let chunks = |sizes| (V6_7.drain_chunk(sizes), V6_18.drain_chunk(sizes));
    assert_eq!(chunks(near.sizes), (u32::MAX, 63), "6.7 drains in one critical section");
}

#[test]
fn drains_in_chunks_take_the_lock_once_for_each() {
    let drains = |policy| {
        let config = PageConfig { initial_frames: 16 << 10, grow: false, policy, ..TINY };
        let config = PageConfig { reserve_bytes: 256 << 20, declared_cpus: 16, ..config };
        let pages = build(config, &RingSizes::default());
        let slot = SlotIndex(0);
        let alloc = |_| pages.alloc(slot, request(0, Movable)).expect("64 MiB").pfn;
        let taken: Vec<Pfn> = (0..1000).map(alloc).collect();
        taken.iter().for_each(|pfn| pages.free(slot, *pfn, Order::ZERO));
        let counters = pages.pcp_counters(slot);
        (counters.drains, counters.drained_pages)
    };
    let (one, pages) = drains(Chosen::V6_7(V6_7));
    let (chunks, same_pages) = drains(Chosen::V6_18(V6_18));
    assert_eq!(pages, same_pages, "the same pages leave");
    assert!(chunks > one, "{chunks} critical sections, {one} in 6.7");
}

#[test]
fn order_9_has_three_lists_then_one_then_two() {
    let huge = Order::new(9);
    let lists = |policy: &dyn Fn(MigrateType) -> Option<usize>| {
        [Unmovable, Movable, Reclaimable].map(|of| policy(of).expect("listed"))
    };
    assert_eq!(lists(&|of| V5_14.list(huge, of)), [12, 13, 14]);
    assert_eq!(lists(&|of| V6_7.list(huge, of)), [12, 12, 12]);
    assert_eq!(lists(&|of| V6_18.list(huge, of)), [12, 13, 12]);
    assert_eq!(V5_14.list(Order::new(4), Movable), None);
}

#[test]
fn drains_begin_with_movable_pages_up_to_5_17_but_for_2016() {
    let vanilla = Order0 { batch: 31, high: 186 };
    let from = |first| DrainWalk::GrowingBatches { first };
    assert_eq!((vanilla.orders(), vanilla.walk()), ([0; 3].as_slice(), from(1)));
    let of_2016 = [0, 0, 0, 1, 2, 3].as_slice();
    assert_eq!((HIGHMARK.orders(), HIGHMARK.walk()), (of_2016, from(0)));
    let of_5_14 = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 9, 9, 9].as_slice();
    assert_eq!((V5_14.orders(), V5_14.walk()), (of_5_14, from(1)));
    let whole = DrainWalk::WholeLists;
    assert_eq!((V5_18.orders(), V5_18.walk()), (of_5_14, whole), "the list freed to, since 5.18");
}

/// A zone of 64 MiB whose lists hold pages, while little else is free.
fn short_of_memory(policy: Chosen) -> PageAllocator<Chosen> {
    let config = PageConfig { initial_frames: 16 << 10, grow: false, policy, ..TINY };
    let pages = build(PageConfig { reserve_bytes: 256 << 20, ..config }, &RingSizes::default());
    let (slot, zone) = (SlotIndex(0), pages.zones().zone(NodeId(0)));
    // Allocates movable pages first: their list then still has some when the other lists are empty.
    let mut kept: Vec<Pfn> = Vec::new();
    for _ in 0..12 {
        kept.push(pages.alloc(slot, request(0, Movable)).expect("room").pfn);
    }
    while zone.watermark_ok(Order::ZERO, Mark::Low, AllocFlags::default()) {
        pages.alloc(SlotIndex(1), request(0, Unmovable)).expect("above the low mark");
    }
    kept.iter().for_each(|pfn| pages.free(slot, *pfn, Order::ZERO));
    pages
}

#[test]
fn every_request_is_tested_under_the_policies_of_the_documents() {
    let serves = |policy| {
        let pages = short_of_memory(policy);
        let (slot, node) = (SlotIndex(0), NodeId(0));
        assert!(pages.pcp_tuning(slot, node).count >= 12, "{policy:?}: the list has pages");
        let page = pages.alloc_above(slot, request(0, Movable), Mark::Low);
        // A request of the slow path is served, because it may use frames down to the min mark.
        assert!(pages.alloc(slot, request(0, Movable)).is_some(), "{policy:?}");
        page.is_some()
    };
    for known in PAGE_POLICIES {
        let is_ours = matches!(known.policy, Chosen::V6_18(_) | Chosen::V6_18Wide(_));
        assert_eq!(serves(known.policy), is_ours, "{}", known.name);
    }
}

#[test]
fn a_zone_below_its_high_mark_is_noted_at_the_request_or_at_the_refill() {
    let noted = |policy| {
        let config = PageConfig { initial_frames: 16 << 10, grow: false, policy, ..TINY };
        let pages = build(config, &RingSizes::default());
        let (slot, zone) = (SlotIndex(0), pages.zones().zone(NodeId(0)));
        let high = |_| zone.watermark_ok(Order::ZERO, Mark::High, AllocFlags::default());
        while high(()) {
            pages.alloc(slot, request(0, Movable)).expect("above the high mark");
        }
        let listed = pages.pcp_tuning(slot, NodeId(0)).count;
        assert!(listed > 0 && !zone.is_below_high(), "the last refill found it above");
        pages.alloc(slot, request(0, Movable)).expect("listed");
        zone.is_below_high()
    };
    assert!(noted(Chosen::V6_7(V6_7)));
    assert!(!noted(Chosen::V6_18(V6_18)));
}

#[test]
fn high_order_atomic_requests_refill_lists_but_not_from_the_reserve() {
    for known in PAGE_POLICIES.iter().filter(|known| known.page != "order0") {
        let config = PageConfig { reserve_bytes: 512 << 20, grow: false, ..TINY };
        let config = PageConfig { initial_frames: 64 << 10, policy: known.policy, ..config };
        let pages = build(config, &RingSizes::default());
        let (slot, zone) = (SlotIndex(0), pages.zones().zone(NodeId(0)));
        let flags = AllocFlags { high_atomic: true, min_reserve: true, non_block: true };
        let atomic = PageRequest { flags, ..request(2, Unmovable) };
        let page = pages.alloc_above(slot, atomic, Mark::Min);
        let page = page.expect("memory is plenty");
        assert_eq!(pages.pcp_counters(slot).refills, 1, "{}", known.name);
        pages.zones().reserve_high_atomic(NodeId(0), page.pfn, Order::new(2));
        assert_eq!(zone.reserved_high_atomic(), 512, "{}", known.name);
        pages.drain_all();
        let again = pages.alloc_above(slot, atomic, Mark::Min);
        assert_eq!(pages.pcp_counters(slot).refills, 2, "{}", known.name);
        let first = page.pfn.pageblock().first();
        let is_listed = |offset| pages.frames().state(first.plus(offset)).is_in_pcp();
        assert!(!(0..512).any(is_listed), "{}: no block of the reserve is listed", known.name);
        pages.free(slot, again.expect("memory is plenty").pfn, Order::new(2));
        pages.free(slot, page.pfn, Order::new(2));
        assert_eq!(pages.validate(), Ok(()));
    }
}

#[test]
fn sizes_of_2016_follow_the_zone() {
    let sizes = |policy: V2016| policy.sizes(SizeInputs::of(GIB, false, 1, 16));
    // The batch is 31: three batches of single pages, and a refill of 31 blocks of order 3.
    assert_eq!(sizes(HIGHMARK), Sizes::fixed(31, 341));
    assert_eq!(sizes(V2016 { raises_high: false }), Sizes::fixed(31, 186));
}

#[test]
fn refills_of_2016_are_of_one_size_whatever_the_order() {
    let pages = some_zones();
    let near = surroundings(pages.zones().zone(NodeId(0)), 2048);
    let mut tuning = Tuning::default();
    assert_eq!(
        [0, 1, 2, 3].map(|order| HIGHMARK.refill(&mut tuning, near, Order::new(order))),
        [63; 4]
    );
}

/// For 256 allocations of an order: the number of refills, and of blocks directly from the zone.
fn refills(policy: Chosen, order: u8) -> (u64, u64) {
    let config = PageConfig { policy, reserve_bytes: 256 << 20, declared_cpus: 16, ..TINY };
    let pages = build(config, &RingSizes::default());
    for _ in 0..256 {
        pages.alloc(SlotIndex(0), request(order, Movable)).unwrap();
    }
    let counters = pages.pcp_counters(SlotIndex(0));
    (counters.refills, counters.bypassed_allocs)
}

#[test]
fn high_orders_reach_the_zone_once_per_batch_or_every_time() {
    let vanilla = Chosen::Order0(Order0 { batch: 31, high: 186 });
    assert_eq!(refills(vanilla, 0), (256_u64.div_ceil(31), 0));
    assert_eq!(refills(vanilla, 1), (0, 256), "vanilla: every block of order 1 takes the lock");
    assert_eq!(refills(Chosen::V2016(HIGHMARK), 1), (256_u64.div_ceil(31), 0));
    assert_eq!(refills(Chosen::V2016(HIGHMARK), 3), (256_u64.div_ceil(31), 0));
    assert_eq!(refills(Chosen::V2016(HIGHMARK), 4), (0, 256));
    assert_eq!(refills(Chosen::V6_18(V6_18), 3), (256_u64.div_ceil(7), 0));
    assert_eq!(refills(Chosen::V6_18(V6_18), 0), (3, 0), "63 + 126 + 252 blocks");
}

/// Document 000: "The high watermark for per-cpu pages is increased to reduce the probability that
/// a single refill causes a drain on the next free."
#[test]
fn a_raised_mark_keeps_a_refill_from_being_drained_by_the_next_free() {
    let drains = |raises_high| {
        let policy = Chosen::V2016(V2016 { raises_high });
        let config = PageConfig { policy, reserve_bytes: 256 << 20, declared_cpus: 16, ..TINY };
        let pages = build(config, &RingSizes::default());
        let block = pages.alloc(SlotIndex(0), request(3, Movable)).unwrap().pfn;
        pages.free(SlotIndex(0), block, Order::new(3));
        pages.pcp_counters(SlotIndex(0)).drains
    };
    assert_eq!([true, false].map(drains), [0, 1]);
}
