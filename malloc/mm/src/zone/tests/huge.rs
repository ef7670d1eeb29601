//! Pageblocks that become huge pages for slabs and for the page cache.

use super::pressure::GROWING;
use super::*;
use crate::frame::{
    FRAME_BYTES, Faults, Kind, KindSet, PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES, PageblockIndex,
};
use crate::zone::grow::Urgency;
use quarry_sys::os::FakeOs;

/// Pageblocks of the zones in these tests: 256 MiB.
const PAGEBLOCKS: u32 = 128;

const LARGE: ZoneConfig =
    ZoneConfig { reserve_bytes: 512 << 20, initial_frames: PAGEBLOCKS * PAGEBLOCK_FRAMES, ..FIXED };

/// A kind of slabs that programs touch whole, and a kind that they touch only in part.
const WHOLE: Kind = Kind(100);
const IN_PARTS: Kind = Kind(1);

/// Claims `count` blocks of 4 MiB for slabs. Returns how many pageblocks became huge pages.
fn claim(os: &FakeOs, zones: &Zones, count: u32, of: MigrateType) -> usize {
    let before = os.huge_bytes();
    for _ in 0..count {
        let block = take(zones, &ask(10, of)).expect("the zone is large enough");
        zones.memory().frames().set_kind(block.pfn, block.order.frames(), WHOLE);
    }
    os.huge_bytes().wrapping_sub(before) / PAGEBLOCK_BYTES
}

#[test]
fn what_is_touched_whole_becomes_huge_and_what_is_not_does_not() {
    for (of, expected) in [(Unmovable, 32), (Reclaimable, 0)] {
        let os = fake_os();
        let zones = zones_on(os, &LARGE);
        assert_eq!(claim(os, &zones, 16, of), expected, "{of:?}");
        assert_eq!(zones.validate(), Ok(()));
    }
}

/// Huge pages then have 32 or 512 MiB: a pageblock is no whole one, and would come in small.
#[test]
fn no_pageblock_is_huge_where_the_pages_of_the_system_are_larger_than_frames() {
    for page in [16 << 10, 64 << 10] {
        let os: &'static FakeOs = Box::leak(Box::new(FakeOs::new(page)));
        let zones = zones_on(os, &ZoneConfig { populate: true, ..LARGE });
        assert_eq!(claim(os, &zones, 16, Unmovable), 0);
        assert!(!zones.may_make_huge(), "no mapping becomes huge either");
        let block = take(&zones, &ask(0, Movable)).expect("memory");
        zones.fill_whole(PageblockIndex(block.pfn.pageblock().0).first());
        assert_eq!(os.huge_bytes(), 0, "nor what the page cache fills");
        zones.populate(Pfn(1), 1);
        assert_eq!(os.populated_bytes(), page, "one page comes in, not a pageblock");
    }
}

#[test]
fn slabs_that_are_touched_in_parts_are_separate_in_large_zones() {
    let small = ZoneConfig { initial_frames: PAGEBLOCK_FRAMES, ..LARGE };
    for (zones, parts) in [(zones(&LARGE), Reclaimable), (zones(&small), Unmovable)] {
        zones.note_touched(WHOLE, true);
        assert_eq!(zones.slab_type(NODE, WHOLE), Unmovable);
        assert_eq!(zones.slab_type(NODE, IN_PARTS), parts);
        zones.note_touched(WHOLE, false);
        assert_eq!(zones.slab_type(NODE, WHOLE), parts);
    }
}

#[test]
fn kinds_enter_and_leave_a_set() {
    let set = KindSet::default();
    for kind in [0, 63, 64, 255].map(Kind) {
        set.set(kind, true);
        assert!(set.has(kind) && !set.has(Kind(kind.0 ^ 1)));
        set.set(kind, false);
        assert!(!set.has(kind));
    }
}

#[test]
fn what_was_huge_is_plain_when_it_is_claimed_again_for_what_is_not_touched() {
    let os = fake_os();
    let zones = zones_on(os, &LARGE);
    let memory = zones.memory();
    assert_eq!(claim(os, &zones, PAGEBLOCKS / 2, Unmovable), PAGEBLOCKS as usize);
    let give_back = |pageblock: u32| {
        let pfn = PageblockIndex(pageblock).first();
        memory.frames().set_kind(pfn, 1024, Kind::NONE);
        put(&zones, Block { pfn, order: Order::MAX, zeroed: false });
    };
    (0..PAGEBLOCKS).step_by(2).for_each(give_back);
    // Large blocks take all the memory, and are freed again.
    for _ in 0..PAGEBLOCKS / 2 {
        take(&zones, &ask(10, Movable)).expect("all is free");
    }
    (0..PAGEBLOCKS).step_by(2).for_each(give_back);
    zones.purge(NODE, Order::ZERO, usize::MAX);
    let before = os.huge_bytes();
    claim(os, &zones, PAGEBLOCKS / 2, Reclaimable);
    let after = before - PAGEBLOCKS as usize * PAGEBLOCK_BYTES;
    assert_eq!(os.huge_bytes(), after, "huge pages are taken back");
    assert_eq!(zones.validate(), Ok(()));
}

/// Takes a pageblock. `others` of its frames get other owners; the page cache takes each of the
/// rest and calls `fill_whole` for it. Returns the number of huge pages that it requested.
fn fill(os: &FakeOs, zones: &Zones, others: u32) -> usize {
    let before = os.huge_bytes();
    let block = take(zones, &ask(9, Movable)).expect("the zone is large enough");
    for at in 0..block.order.frames() {
        let pfn = block.pfn.plus(block.order.frames() - 1 - at);
        let kind = if at < others { IN_PARTS } else { Kind::CACHED };
        zones.memory().frames().set_kind(pfn, 1, kind);
        if kind == Kind::CACHED {
            zones.fill_whole(pfn);
        }
    }
    os.huge_bytes().wrapping_sub(before) / PAGEBLOCK_BYTES
}

#[test]
fn what_the_page_cache_fills_is_huge_unless_others_have_much_of_it() {
    for (others, expected) in [(0, 1), (1, 1), (65, 0), (400, 0)] {
        let os = fake_os();
        let zones = zones_on(os, &LARGE);
        assert_eq!(fill(os, &zones, others), expected, "{others} frames belong to others");
        assert_eq!(zones.validate(), Ok(()));
    }
}

#[test]
fn the_page_cache_asks_for_nothing_where_huge_pages_are_off() {
    let os = fake_os();
    let zones = zones_on(os, &ZoneConfig { huge: false, ..LARGE });
    assert_eq!(fill(os, &zones, 0), 0);
}

#[test]
fn a_pageblock_with_a_hole_is_huge_no_more() {
    let os = fake_os();
    let zones = zones_on(os, &LARGE);
    let memory = zones.memory();
    assert!(claim(os, &zones, 16, Unmovable) > 0);
    let faults = |pfn: Pfn| memory.pageblocks().of(pfn).faults();
    let mut pageblocks = (0..PAGEBLOCKS).map(|index| PageblockIndex(index).first());
    let first = pageblocks.find(|pfn| faults(*pfn) == Faults::Huge).expect("one is huge");
    let purge_quarter = |at: u32| {
        let pfn = first.plus(at * 128);
        memory.frames().set_kind(pfn, 128, Kind::NONE);
        put(&zones, Block { pfn, order: Order::new(7), zeroed: false });
        let before = os.huge_bytes();
        assert_eq!(zones.purge(NODE, Order::ZERO, usize::MAX), 128 * FRAME_BYTES);
        before - os.huge_bytes()
    };
    assert_eq!(purge_quarter(1), PAGEBLOCK_BYTES, "it is told to stay small");
    assert_eq!(faults(first), Faults::Small);
    assert_eq!(purge_quarter(3), 0, "once");
    assert_eq!(zones.validate(), Ok(()));
}

/// Without advice, an OS that makes huge pages unasked would give a program of one object 2 MiB.
#[test]
fn the_first_4_mib_of_a_zone_have_small_pages() {
    let os = fake_os();
    let zones = zones_on(os, &GROWING);
    let grow = || {
        assert!(zones.grow(NODE, &ask(10, Unmovable), Urgency::Low));
        core::iter::from_fn(|| take(&zones, &ask(10, Unmovable))).collect::<Vec<_>>()
    };
    let blocks: Vec<Block> = (0..3).flat_map(|_| grow()).collect();
    let faults = |at| zones.memory().pageblocks().at(PageblockIndex(at)).faults();
    assert_eq!([0, 1, 2].map(faults), [Faults::Small, Faults::Small, Faults::Plain]);
    let small = (2 * PAGEBLOCK_BYTES).wrapping_neg();
    assert_eq!(os.huge_bytes(), small);
    // Although steps have doubled, again only the first 4 MiB get the advice.
    blocks.into_iter().for_each(|block| put(&zones, block));
    zones.give_back();
    assert_eq!(zones.zone(NODE).managed(), 0);
    grow();
    assert_eq!(os.huge_bytes(), small.wrapping_mul(2));
}

#[test]
fn what_costs_more_than_small_pages_is_not_asked_for() {
    const MS: u64 = 1_000_000;
    for (huge_ms, expected) in [(1, true), (5, false)] {
        let os = fake_os();
        let zones = zones_on(os, &LARGE);
        let prices = zones.memory().prices();
        prices.note(false, PAGEBLOCK_FRAMES, MS, 0);
        // The time is after a year of uptime.
        prices.note(true, PAGEBLOCK_FRAMES, huge_ms * MS, 365 * 24 * 3600 * 1000 * MS);
        assert_eq!(claim(os, &zones, 16, Unmovable) > 0, expected, "{huge_ms} ms");
        assert_eq!(zones.validate(), Ok(()));
    }
}

#[test]
fn a_huge_page_comes_in_by_one_call() {
    let os = fake_os();
    let zones = zones_on(os, &LARGE);
    assert!(claim(os, &zones, 16, Unmovable) > 0);
    let pageblocks = (0..PAGEBLOCKS).map(|index| PageblockIndex(index).first());
    let faults = |pfn: Pfn| zones.memory().pageblocks().of(pfn).faults();
    let huge: Vec<_> = pageblocks.filter(|pfn| faults(*pfn) == Faults::Huge).collect();
    let before = os.populated_bytes();
    zones.populate(huge[0].plus(64), 16);
    assert_eq!(os.populated_bytes() - before, PAGEBLOCK_BYTES);
    assert_eq!(faults(huge[0]), Faults::Whole);
    // When a part of it goes back, the pageblock becomes small; when all goes back, huge again.
    zones.populate(huge[1], 1);
    zones.purge_owned(huge[0].plus(8), 8);
    zones.purge_owned(huge[1], PAGEBLOCK_FRAMES);
    assert_eq!([huge[0], huge[1]].map(faults), [Faults::Small, Faults::Huge]);
}
