//! The algorithms of the policies, number by number.

use super::*;
use crate::frame::MigrateType::{Movable, Unmovable};
use crate::frame::{Memory, NodeId};
use crate::pcp::drain::Drain;
use crate::pcp::lists::Lists;
use crate::pcp::policy::{DrainWalk, PagePolicy, PolicyContext, SizeInputs, Sizes};
use crate::pcp::ring::{MAX_LISTS, Ring, Rings};
use crate::pcp::tests::HIGHMARK;
use crate::pcp::v6_18::V6_18;
use crate::pcp::v2016::V2016;
use crate::zone::Zone;

pub(super) const GIB: u32 = 1 << 18;

pub(super) fn sizes(policy: &impl PagePolicy, managed: u32, cpus: u32) -> Sizes {
    policy.sizes(SizeInputs::of(managed, false, 1, cpus))
}

/// Bounds of lists that tune themselves, on a machine with large caches.
pub(super) fn tuned(batch: u32, high_min: u32, high_max: u32) -> Sizes {
    Sizes { batch, high_min, high_max, kept: batch }
}

#[test]
fn sizes_follow_the_zone_and_its_cpus() {
    // Low mark of 1 GiB: 1,286 frames; an eighth of it: 32,768, bounded by 8 MiB a CPU.
    assert_eq!(sizes(&V6_18, GIB, 2), tuned(63, 643, 2048));
    assert_eq!(sizes(&V6_18, GIB, 16), tuned(63, 252, 2048));
    assert_eq!(sizes(&V6_18, GIB, 64), tuned(63, 252, 512));
    assert_eq!(sizes(&V6_18, GIB / 4, 16), tuned(15, 60, 512));
    assert_eq!(sizes(&V6_18, GIB / 16, 4).batch, 3);
    // A growing zone is sized as one of 1 GiB, even if it has little at the start.
    assert_eq!(V6_18.sizes(SizeInputs::of(0, true, 1, 2)), sizes(&V6_18, GIB, 2));
    // Two zones share the CPUs.
    assert_eq!(SizeInputs::of(GIB, false, 2, 16).cpus, 8);
    // 2016: batch 31; three batches of single pages, and a refill of 31 blocks of order 3.
    assert_eq!(sizes(&HIGHMARK, GIB, 16), Sizes::fixed(31, 341));
    assert_eq!(sizes(&V2016 { raises_high: false }, GIB, 16), Sizes::fixed(31, 186));
}

/// A zone for policies to look at.
pub(super) fn surroundings(zone: &Zone, high_max: u32) -> PolicyContext<'_> {
    PolicyContext { sizes: tuned(63, 252, high_max), zone }
}

pub(super) fn some_zones() -> PageAllocator<Chosen> {
    build(PageConfig { initial_frames: 4096, grow: false, ..TINY }, &RingSizes::default())
}

#[test]
fn refills_of_order_0_double_up_to_2016() {
    let pages = some_zones();
    let near = surroundings(pages.zones().zone(NodeId(0)), 100_000);
    let mut tuning = Tuning::default();
    let refills: Vec<u32> = (0..7).map(|_| V6_18.refill(&mut tuning, near, Order::ZERO)).collect();
    assert_eq!(refills, [63, 126, 252, 504, 1008, 2016, 2016]);
    V6_18.after_free(&mut tuning, near, Order::ZERO);
    assert_eq!(tuning.alloc_factor, 2, "a free halves the factor");
    // Never more than fits below high: 2,048 - 0 - 63.
    let near = surroundings(pages.zones().zone(NodeId(0)), 2048);
    let mut tuning = Tuning { alloc_factor: 5, high: 2048, ..Tuning::default() };
    assert_eq!(V6_18.refill(&mut tuning, near, Order::ZERO), 1985);
    tuning.count = 2040;
    assert_eq!(V6_18.refill(&mut tuning, near, Order::ZERO), 63, "but a batch at least");
}

#[test]
fn refills_of_higher_orders_are_scaled_down() {
    let pages = some_zones();
    let near = surroundings(pages.zones().zone(NodeId(0)), 2048);
    let refill = |order| {
        let mut tuning = Tuning { alloc_factor: 4, ..Tuning::default() };
        V6_18.refill(&mut tuning, near, Order::new(order))
    };
    assert_eq!([1, 2, 3, 9].map(refill), [31, 15, 7, 2]);
    let mut tuning = Tuning::default();
    assert_eq!(
        [0, 1, 2, 3].map(|order| HIGHMARK.refill(&mut tuning, near, Order::new(order))),
        [63; 4]
    );
}

#[test]
fn frees_in_a_row_are_counted_and_allocations_halve_the_count() {
    let pages = some_zones();
    let near = surroundings(pages.zones().zone(NodeId(0)), 2048);
    let mut tuning = Tuning::default();
    for _ in 0..300 {
        tuning.count += 8;
        V6_18.after_free(&mut tuning, near, Order::new(3));
    }
    assert_eq!(tuning.free_count, 2016, "63 << 5 is the most that is counted");
    V6_18.before_alloc(&mut tuning);
    assert_eq!(tuning.free_count, 1008);
}

#[test]
fn high_rises_with_bursts_of_frees_and_decays() {
    let pages = some_zones();
    let near = surroundings(pages.zones().zone(NodeId(0)), 2048);
    let mut tuning = Tuning::default();
    let mut drained = Vec::new();
    for _ in 0..400 {
        tuning.count += 1;
        let drain = V6_18.after_free(&mut tuning, near, Order::ZERO);
        if drain > 0 {
            drained.push((tuning.count, drain));
            tuning.count -= drain;
        }
    }
    // At 252 pages the burst of 252 is drained as far as `high - batch` allows; then high = 315.
    assert_eq!(drained[0], (252, 189));
    assert_eq!(tuning.high, 315);
    let mut tuning = Tuning { high: 2048, count: 2000, ..Tuning::default() };
    assert_eq!(V6_18.decay(&mut tuning, near.sizes), 208);
    assert_eq!(tuning.high, 1792, "an eighth less");
    let mut rounds = 0;
    while tuning.high > 252 {
        tuning.count -= V6_18.decay(&mut tuning, near.sizes).min(tuning.count);
        rounds += 1;
    }
    assert!(rounds < 20, "{rounds} rounds to the lower bound");
}

#[test]
fn a_row_of_high_order_frees_empties_the_lists() {
    let pages = some_zones();
    let near = surroundings(pages.zones().zone(NodeId(0)), 2048);
    let mut tuning = Tuning { high: 2048, ..Tuning::default() };
    let mut frees = 0;
    let drain = loop {
        tuning.count += 2;
        frees += 1;
        let drain = V6_18.after_free(&mut tuning, near, Order::new(1));
        if drain > 0 {
            break drain;
        }
    };
    // free_count must have reached 63 + 252 / 2 = 189 before this free: 95 frees of two pages.
    assert_eq!((frees, drain), (96, 192));
    assert_eq!(tuning.high, 252, "and high falls by 63 << 5, to the lower bound at least");
    tuning.count = 0;
    tuning.count += 1;
    V6_18.after_free(&mut tuning, near, Order::ZERO);
    assert!(!tuning.prev_free_high_order, "another order ends the row");
}

#[test]
fn pressure_lowers_the_mark() {
    let pages = some_zones();
    let zone = pages.zones().zone(NodeId(0));
    let near = surroundings(zone, 2048);
    let active = pages.zones().reclaiming(|_| true);
    let mut tuning = Tuning { high: 1000, count: 300, ..Tuning::default() };
    // Drains to min(4 * batch, high) = 252: 63 pages at least, 252 - 63 at most.
    assert_eq!(V6_18.after_free(&mut tuning, near, Order::ZERO), 63);
    assert_eq!(tuning.high, 937);
    drop(active);
    zone.set_below_high(true);
    let mut tuning = Tuning { high: 1000, count: 300, ..Tuning::default() };
    assert_eq!(V6_18.after_free(&mut tuning, near, Order::ZERO), 63, "count itself is the mark");
    assert_eq!(tuning.high, 937);
    let mut tuning = Tuning { high: 1000, ..Tuning::default() };
    V6_18.refill(&mut tuning, near, Order::ZERO);
    assert_eq!(tuning.high, 1000, "high does not rise below the zone's high mark");
}

/// Lists with `blocks[i]` blocks each; drains `pages` pages and returns the lists in turn.
pub(super) fn drained(
    orders: &'static [u8],
    walk: DrainWalk,
    blocks: &[u32],
    pages: u32,
    first: usize,
) -> Vec<u8> {
    let os = fake_os();
    let memory = Memory::reserve(os, 64 << 20).unwrap();
    memory.take_for_zone(32).unwrap();
    let frames = memory.frames();
    let rings = Rings::reserve(os, 1, orders, &RingSizes::default()).unwrap();
    let mut lists = Lists {
        tuning: Tuning::default(),
        rings: [Ring::default(); MAX_LISTS],
        counters: PcpCounters::default(),
    };
    for (list, blocks) in blocks.iter().enumerate() {
        let order = Order::new(orders[list]);
        for block in 0..*blocks {
            let pfn = Pfn((list as u32) << 10 | block << order.get());
            frames.set_state(pfn, FrameState::in_pcp(order, false));
            rings.at(0).push_tail(list, &mut lists.rings[list], pfn);
            lists.tuning.count += order.frames();
        }
    }
    let before = lists.tuning.count;
    let drain = Drain::new(&mut lists, rings.at(0), frames, (orders, walk), pages, first);
    let drained: Vec<_> = drain.collect();
    let taken: u32 = drained.iter().map(|block| block.order.frames()).sum();
    assert_eq!(lists.tuning.count, before - taken, "the count follows what was taken");
    drained.iter().map(|block| (block.pfn.0 >> 10) as u8).collect()
}

#[test]
fn the_2016_drain_starves_order_3() {
    // Document 000's reviewers: with batch 7, 1 + 1 + 1 + 2 + 4 = 9 pages go before order 3's turn.
    let lists = drained(HIGHMARK.orders(), HIGHMARK.walk(), &[9; 6], 7, 3);
    assert_eq!(lists, [0, 1, 2, 3, 4]);
}

#[test]
fn the_2016_drain_takes_more_from_lists_behind_empty_ones() {
    let lists = drained(HIGHMARK.orders(), HIGHMARK.walk(), &[9, 0, 0, 9, 0, 0], 12, 0);
    // 1 from list 0; 3 (past two empty ones) from list 3; again 3 past two empty ones from list 0.
    assert_eq!(lists, [0, 3, 3, 3, 0, 0, 0, 3]);
    let alone = drained(HIGHMARK.orders(), HIGHMARK.walk(), &[0, 9, 0, 0, 0, 0], 5, 0);
    assert_eq!(alone, [1; 5], "a list that is alone gives all");
}

#[test]
fn the_current_drain_takes_whole_lists_beginning_with_the_one_freed_to() {
    let mut blocks = [0; 14];
    (blocks[0], blocks[4], blocks[11]) = (5, 3, 2);
    let lists = drained(V6_18.orders(), V6_18.walk(), &blocks, 11, 4);
    // Three blocks of order 1, then one of order 3, which overshoots by 3 pages.
    assert_eq!(lists, [4, 4, 4, 11]);
    let all = drained(V6_18.orders(), V6_18.walk(), &blocks, u32::MAX, 4);
    assert_eq!(all, [4, 4, 4, 11, 11, 0, 0, 0, 0, 0]);
}

#[test]
fn lists_are_freed_to_and_taken_from_at_the_head_and_drained_at_the_tail() {
    let config = PageConfig { policy: Chosen::Order0(Order0 { batch: 4, high: 1000 }), ..TINY };
    let pages = build(config, &RingSizes::default());
    let slot = SlotIndex(0);
    let alloc = || pages.alloc(slot, request(0, Unmovable)).unwrap().pfn;
    let batch: Vec<Pfn> = (0..4).map(|_| alloc()).collect();
    assert!(batch.is_sorted(), "a refill is listed in the order in which it came: {batch:?}");
    batch.iter().for_each(|pfn| pages.free(slot, *pfn, Order::ZERO));
    assert_eq!(alloc(), batch[3], "freed last, taken first");
    assert_eq!(pages.pcp_counters(slot).refills, 1);
}

/// The cost of an order at the zone under each policy: refills for 256 blocks.
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

#[test]
fn one_section_frees_a_list_under_one_lock() {
    let sections = |free_list| {
        let pages = build(PageConfig { free_list, ..TINY }, &RingSizes::default());
        let slot = SlotIndex(0);
        let mut out = [Page { pfn: Pfn::NONE, zeroed: false }; 64];
        let got = pages.alloc_bulk(slot, request(0, Movable), &mut out);
        let list: Vec<(Pfn, Order)> =
            out[..got].iter().map(|page| (page.pfn, Order::ZERO)).collect();
        pages.free_list(slot, &list);
        assert_eq!(pages.validate(), Ok(()));
        (got as u64, pages.pcp_counters(slot).critical_sections)
    };
    assert_eq!(sections(FreeListPolicy::PerPage), (64, 64));
    assert_eq!(sections(FreeListPolicy::OneSection), (64, 1));
}
