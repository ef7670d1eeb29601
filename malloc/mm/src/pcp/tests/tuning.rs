//! The algorithms of the policies, checked number by number.

use super::*;
use crate::frame::MigrateType::{Movable, Unmovable};

const GIB: u32 = 1 << 18;

fn sizes(policy: &impl PagePolicy, managed: u32, cpus: u32) -> Sizes {
    policy.sizes(SizeInputs::of(managed, false, 1, cpus))
}

/// Bounds of lists that tune themselves, on a machine with large caches.
fn tuned(batch: u32, high_min: u32, high_max: u32) -> Sizes {
    Sizes { batch, high_min, high_max, kept: batch }
}

#[test]
fn sizes_follow_the_zone_and_its_cpus() {
    // 1 GiB: the low mark is 1,286 frames; an eighth of the zone is 32,768, bounded by 8 MiB a CPU.
    assert_eq!(sizes(&V6_18, GIB, 2), tuned(63, 643, 2048));
    assert_eq!(sizes(&V6_18, GIB, 16), tuned(63, 252, 2048));
    assert_eq!(sizes(&V6_18, GIB, 64), tuned(63, 252, 512));
    assert_eq!(sizes(&V6_18, GIB / 4, 16), tuned(15, 60, 512));
    assert_eq!(sizes(&V6_18, GIB / 16, 4).batch, 3);
    // A growing zone gets the sizes of a zone of 1 GiB, even if it is small at the start.
    assert_eq!(V6_18.sizes(SizeInputs::of(0, true, 1, 2)), sizes(&V6_18, GIB, 2));
    // Each of two zones has half of the CPUs.
    assert_eq!(SizeInputs::of(GIB, false, 2, 16).cpus, 8);
}

/// A zone as policies see it.
fn surroundings(zone: &Zone, high_max: u32) -> PolicyContext<'_> {
    PolicyContext { sizes: tuned(63, 252, high_max), zone }
}

fn some_zones() -> PageAllocator<V6_18> {
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
    // No refill takes more than fits below `high`: 2,048 - 0 - 63 (`high - count - batch`).
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
    // A row of 252 frees may drain 252 pages, but only down to `high - batch`. Then `high` is 315.
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
    // Drains down to min(4 * batch, high) = 252 pages: at least 63, at most 252 - 63 pages.
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

#[test]
fn lists_are_freed_to_and_taken_from_at_the_head_and_drained_at_the_tail() {
    let pages = build(tiny(Fixed { batch: 4, high: 1000 }), &RingSizes::default());
    let slot = SlotIndex(0);
    let alloc = || pages.alloc(slot, request(0, Unmovable)).unwrap().pfn;
    let batch: Vec<Pfn> = (0..4).map(|_| alloc()).collect();
    assert!(batch.is_sorted(), "a refill is listed in the order in which it came: {batch:?}");
    batch.iter().for_each(|pfn| pages.free(slot, *pfn, Order::ZERO));
    assert_eq!(alloc(), batch[3], "freed last, taken first");
    assert_eq!(pages.pcp_counters(slot).refills, 1);
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

#[test]
fn rings_have_room_for_the_bounds() {
    let fits = |high| RingSizes::fitting(high, 2016);
    assert_eq!((fits(2048).single, fits(2048).small, fits(2048).huge), (4096, 1024, 64));
    let large = fits(65_536);
    assert_eq!((large.single, large.small, large.huge), (131_072, 32_768, 256));
}
