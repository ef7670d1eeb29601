//! Watermarks, the reserve, growth and purging, also when the system refuses.

use super::*;
use crate::zone::{Mark, Marks, Urgency};

const GIB: u32 = 1 << 18;

#[test]
fn marks_are_those_of_the_kernel() {
    // sqrt(16 * 1048576 kB) = 4096 kB = 1024 frames; gap = max(256, 262144 * 10 / 10000).
    assert_eq!(Marks::of(GIB, GIB), Marks { min: 1024, low: 1286, high: 1548 });
    // 64 MiB: min is 1024 kB; the gap is a quarter of min.
    assert_eq!(Marks::of(GIB / 16, GIB / 16), Marks { min: 256, low: 320, high: 384 });
    // Min is never below 128 kB, and never above 256 MiB.
    assert_eq!(Marks::of(16, 16).min, 32);
    assert_eq!(Marks::of(u32::MAX, u32::MAX).min, 65536);
    // Two zones share `min_free_kbytes`.
    assert_eq!(Marks::of(GIB / 2, GIB).min, 512);
    assert_eq!(Marks::of(0, GIB), Marks::default());
}

/// A zone of 64 MiB that has `free` frames left.
fn drained_to(free: u32) -> Zones {
    let zones = zones(&ZoneConfig { initial_frames: GIB / 16, ..FIXED });
    let take = GIB / 16 - free;
    zones.take(NODE, &ask(0, Movable), take, Destination::User, |_, _| ());
    assert_eq!(zones.zone(NODE).free(), free);
    zones
}

#[test]
fn rights_lower_the_min_mark_by_the_kernels_shares() {
    let none = AllocFlags::default();
    let high = AllocFlags { min_reserve: true, ..none };
    let atomic = AllocFlags { min_reserve: true, non_block: true, ..none };
    let passes = |free: u32, flags: AllocFlags| {
        drained_to(free).zone(NODE).watermark_ok(Order::ZERO, Mark::Min, flags)
    };
    // min = 256; requests with __GFP_HIGH may go down to half of it, atomic ones to 37.5 %.
    assert!(passes(257, none) && !passes(256, none));
    assert!(passes(129, high) && !passes(128, high));
    assert!(passes(97, atomic) && !passes(96, atomic));
}

#[test]
fn a_high_order_needs_a_block_of_its_size() {
    let zones = drained_to(4000);
    let zone = zones.zone(NODE);
    let none = AllocFlags::default();
    assert!(zone.watermark_ok(Order::new(9), Mark::Low, none));
    while take(&zones, &ask(9, Movable)).is_some() {}
    assert!(zone.free() > zone.marks().low, "there are frames enough");
    assert!(!zone.watermark_ok(Order::new(9), Mark::Min, none), "but no block of order 9");
    assert!(zone.watermark_ok(Order::ZERO, Mark::Min, none));
}

#[test]
fn the_reserve_is_one_percent_and_only_for_those_with_the_right() {
    // 1 % of 256 MiB is 655 frames, so the reserve has two pageblocks at most.
    let config = ZoneConfig { initial_frames: GIB / 4, reserve_bytes: 512 << 20, ..FIXED };
    let zones = zones(&config);
    let (zone, memory) = (zones.zone(NODE), zones.memory());
    let atomic =
        Ask { flags: AllocFlags { high_atomic: true, ..Default::default() }, ..ask(2, Movable) };
    for expected in [512, 1024, 1024] {
        let mut blocks = Vec::new();
        while blocks.last().is_none_or(|block: &Block| {
            memory.pageblocks().of(block.pfn).migratetype() == HighAtomic
        }) {
            blocks.push(take(&zones, &ask(9, Movable)).unwrap());
        }
        let block = blocks.pop().unwrap();
        zones.reserve_high_atomic(NODE, block.pfn, block.order);
        assert_eq!(zone.reserved_high_atomic(), expected);
        put(&zones, block);
    }
    assert_eq!(zones.validate(), Ok(()));
    let block = take(&zones, &atomic).unwrap();
    assert_eq!(memory.pageblocks().of(block.pfn).migratetype(), HighAtomic);
    while let Some(block) = take(&zones, &ask(2, Movable)) {
        assert_ne!(memory.pageblocks().of(block.pfn).migratetype(), HighAtomic);
    }
    assert_eq!(zone.free(), 1024 - 4, "no other request may touch the reserve");
    assert!(!zone.watermark_ok(Order::new(2), Mark::Min, AllocFlags::default()));
    put(&zones, block);
    assert!(zones.unreserve_high_atomic(NODE, Movable, false), "two are reserved, one stays");
    assert!(!zones.unreserve_high_atomic(NODE, Movable, false), "the last one stays..");
    assert_eq!(zone.reserved_high_atomic(), 512);
    assert!(zones.unreserve_high_atomic(NODE, Movable, true), "..unless it must go");
    assert_eq!(zones.validate(), Ok(()));
    assert!(take(&zones, &ask(2, Movable)).is_some());
}

#[test]
fn a_zone_too_small_has_no_reserve() {
    let zones = zones(&FIXED);
    let block = take(&zones, &ask(3, Movable)).unwrap();
    zones.reserve_high_atomic(NODE, block.pfn, block.order);
    assert_eq!(zones.zone(NODE).reserved_high_atomic(), 0);
}

#[test]
fn mixing_types_boosts_the_marks_until_memory_is_given_back() {
    let zones = zones(&FIXED);
    let zone = zones.zone(NODE);
    let mut blocks = Vec::new();
    while let Some(block) = take(&zones, &ask(8, Movable)) {
        blocks.push(block);
    }
    blocks.drain(..1).for_each(|block| put(&zones, block));
    assert_eq!(zone.stats().boost, 0);
    put(&zones, take(&zones, &ask(0, Unmovable)).unwrap());
    assert_eq!(zone.stats().boost, 512, "one pageblock at least");
    put(&zones, blocks.pop().unwrap());
    assert!(zones.purge(NODE, Order::ZERO, usize::MAX) > 0);
    assert_eq!(zone.stats().boost, 0);
}

pub(super) const GROWING: ZoneConfig = ZoneConfig { initial_frames: 0, grow: true, ..FIXED };

#[test]
fn growth_doubles_up_to_32_mib_and_ends_with_the_window() {
    let zones = zones(&ZoneConfig { reserve_bytes: 128 << 20, ..GROWING });
    let (zone, single) = (zones.zone(NODE), ask(0, Movable));
    let mut steps = Vec::new();
    let mut managed = 0;
    while zones.grow(NODE, &single, Urgency::Low) {
        if zone.managed() != managed {
            steps.push((zone.managed() - managed) >> 10);
            managed = zone.managed();
        }
        let left = zone.free() - zone.marks().low;
        zones.take(NODE, &single, left, Destination::User, |_, _| ());
    }
    assert_eq!(steps, [1, 2, 4, 8, 8, 8, 1], "units of 4 MiB; the rest as it fits");
    assert!(!zone.can_grow());
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn growth_stops_at_the_limit() {
    let zones = zones(&ZoneConfig { limit_frames: 1500, ..GROWING });
    let single = ask(0, Movable);
    let mut got = 0;
    while zones.grow(NODE, &single, Urgency::Low) {
        let now = zones.take(NODE, &single, 600, Destination::User, |_, _| ());
        got += now;
        if now == 0 {
            break;
        }
    }
    assert_eq!(got, 1500, "the limit is exact");
    assert!(zones.zone(NODE).managed() <= 3 * 1024, "no more was taken than the limit needs");
    assert!(!zones.budget().charge_mapping(1));
}

#[test]
fn purged_blocks_read_as_zero_and_are_known_to() {
    let os = fake_os();
    let zones = Zones::build(os, &FIXED).unwrap();
    let zone = zones.zone(NODE);
    let blocks: Vec<Block> = (0..64).map(|_| take(&zones, &ask(0, Movable)).unwrap()).collect();
    let kept: Vec<&Block> = blocks.iter().skip(1).step_by(2).collect();
    blocks.iter().step_by(2).for_each(|block| put(&zones, *block));
    assert_eq!(zone.dirty(), 32);
    assert_eq!(zones.purge(NODE, Order::new(1), usize::MAX), 0, "only singles are dirty");
    assert_eq!(zones.purge(NODE, Order::ZERO, 5 * 4096), 32 * 4096, "one pageblock");
    assert_eq!((zone.dirty(), os.purged_bytes()), (0, 32 * 4096));
    assert!(take(&zones, &ask(0, Movable)).unwrap().zeroed);
    assert_eq!(kept.len(), 32);
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn pages_of_16_kib_are_never_purged_in_part() {
    let os: &'static FakeOs = Box::leak(Box::new(FakeOs::new(16 << 10)));
    let zones = Zones::build(os, &FIXED).unwrap();
    let blocks: Vec<Block> = (0..16).map(|_| take(&zones, &ask(0, Movable)).unwrap()).collect();
    blocks.iter().step_by(2).for_each(|block| put(&zones, *block));
    assert_eq!(zones.purge(NODE, Order::ZERO, usize::MAX), 0);
    blocks.iter().skip(1).step_by(2).for_each(|block| put(&zones, *block));
    assert!(zones.purge(NODE, Order::ZERO, usize::MAX) > 0);
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn every_refusal_of_the_system_is_survived() {
    let story = |os: &'static FakeOs| -> Option<u64> {
        let zones = Zones::build(os, &GROWING).ok()?;
        let built = os.calls();
        let mut taken = Vec::new();
        for order in [0, 3, 9, 10, 0] {
            let ask = ask(order, Movable);
            let grown = zones.grow(NODE, &ask, Urgency::Low);
            taken.extend(if grown { take(&zones, &ask) } else { None });
        }
        assert_eq!(zones.validate(), Ok(()));
        taken.into_iter().for_each(|block| put(&zones, block));
        zones.purge(NODE, Order::ZERO, usize::MAX);
        assert_eq!(zones.validate(), Ok(()));
        assert_eq!(zones.budget().used(), 0);
        assert!(zones.grow(NODE, &ask(10, Movable), Urgency::Last), "one refusal is not the end");
        Some(built)
    };
    let calls = {
        let os = fake_os();
        story(os).expect("nothing fails");
        os.calls()
    };
    let mut refused_at_start = 0;
    for nth in 1..=calls {
        let os = fake_os();
        os.fail_nth(nth);
        refused_at_start += u64::from(story(os).is_none());
    }
    assert!(refused_at_start > 0 && refused_at_start < calls, "both kinds were walked");
}

/// A stack whose zones got frames at first keeps to these until requests need more.
#[test]
fn only_an_empty_zone_gets_its_first_pageblocks() {
    let empty = zones(&GROWING);
    empty.begin(NODE);
    assert_eq!(empty.zone(NODE).managed(), 1024);
    empty.begin(NODE);
    assert_eq!(empty.zone(NODE).managed(), 1024);
    let filled = zones(&ZoneConfig { grow: true, ..FIXED });
    filled.begin(NODE);
    assert_eq!(filled.zone(NODE).managed(), FIXED.initial_frames);
}
