//! Tests of the zone layer.

mod extents;
#[cfg(feature = "groups")]
mod groups;
mod huge;
mod oracle;
mod pressure;
mod purge;
mod random;

use super::*;
use crate::frame::{MigrateType, NodeId, Order, PageblockTag, Pfn};
use quarry_sys::os::FakeOs;

pub(crate) fn fake_os() -> &'static FakeOs {
    Box::leak(Box::new(FakeOs::new(4096)))
}

pub(super) const FIXED: ZoneConfig = ZoneConfig {
    reserve_bytes: 64 << 20,
    limit_frames: u32::MAX,
    initial_frames: 4096,
    grow: false,
    huge: true,
    nodes: 1,
    node_of_slot: |_| NodeId(0),
    populate: true,
    distance: |one, other| one.0.abs_diff(other.0).into(),
};

pub(super) fn zones(config: &ZoneConfig) -> Zones {
    zones_on(fake_os(), config)
}

fn zones_on(os: &'static FakeOs, config: &ZoneConfig) -> Zones {
    Zones::build(os, config).expect("the fake OS refuses nothing")
}

pub(super) const NODE: NodeId = NodeId(0);

pub(super) fn ask(order: u8, migratetype: MigrateType) -> Ask {
    Ask { order: Order::new(order), migratetype, flags: AllocFlags::default() }
}

/// Takes one block, without regard to watermarks.
pub(super) fn take(zones: &Zones, ask: &Ask) -> Option<Block> {
    let mut taken = None;
    zones.take(NODE, ask, 1, Destination::User, |pfn, zeroed| {
        taken = Some(Block { pfn, order: ask.order, zeroed });
    });
    taken
}

pub(super) fn put(zones: &Zones, block: Block) {
    zones.put(NODE, core::iter::once(Block { zeroed: false, ..block }));
}

use MigrateType::{HighAtomic, Movable, Reclaimable, Unmovable};

#[test]
fn the_lowest_half_is_handed_out_and_all_merges_again() {
    let zones = zones(&FIXED);
    let taken: Vec<Block> = (0..512).map(|_| take(&zones, &ask(0, Movable)).unwrap()).collect();
    for (at, block) in taken.iter().enumerate() {
        assert_eq!(block.pfn, Pfn(at as u32), "expand hands out the lowest address");
    }
    taken.into_iter().for_each(|block| put(&zones, block));
    assert_eq!(zones.validate(), Ok(()));
    let stats = zones.zone(NODE).stats();
    assert_eq!(stats.nr_free[10].iter().sum::<u32>(), 4, "16 MiB are four blocks of 4 MiB");
    assert_eq!(stats.taken, Traffic { calls: 512, blocks: 512, frames: 512 });
    assert_eq!(stats.dirty, 1024, "the block that was used is dirty as a whole");
}

#[test]
fn a_bulk_is_one_critical_section() {
    let zones = zones(&FIXED);
    let before = zones.zone(NODE).lock_stats().acquisitions;
    let mut taken = Vec::new();
    let got = zones.take(NODE, &ask(3, Movable), 100, Destination::User, |pfn, zeroed| {
        taken.push(Block { pfn, order: Order::new(3), zeroed });
    });
    assert_eq!((got, taken.len()), (100, 100));
    zones.put(NODE, taken.into_iter());
    assert_eq!(zones.zone(NODE).lock_stats().acquisitions - before, 2);
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn a_block_whose_own_buddy_is_all_that_is_missing_goes_to_the_tail() {
    let zones = zones(&ZoneConfig { initial_frames: 1024, ..FIXED });
    // Blocks of order 1. The blocks at frames 0 and 2 are buddies; the one at 8 is far from them.
    let taken: Vec<Block> = (0..8).map(|_| take(&zones, &ask(1, Movable)).unwrap()).collect();
    put(&zones, taken[4]);
    // Frame 0's buddy (2) is in use and the next block (4..8) becomes free, so merging is likely.
    put(&zones, taken[2]);
    put(&zones, taken[3]);
    put(&zones, taken[0]);
    assert_eq!(take(&zones, &ask(1, Movable)).unwrap().pfn, taken[4].pfn);
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn types_at_or_above_a_pageblock_merge_unless_one_is_the_reserve() {
    let zones = zones(&ZoneConfig { initial_frames: 1024, ..FIXED });
    let (zone, memory) = (zones.zone(NODE), zones.memory());
    let low = take(&zones, &ask(9, Unmovable)).unwrap();
    let high = take(&zones, &ask(9, Unmovable)).unwrap();
    assert_eq!(memory.pageblocks().of(low.pfn).migratetype(), Unmovable);
    memory.pageblocks().of(high.pfn).set_tag(PageblockTag::new(NODE, Movable));
    put(&zones, low);
    put(&zones, high);
    assert_eq!(zone.stats().nr_free[10], [0, 1, 0, 0], "merged, with the type freed last");
    assert_eq!(memory.pageblocks().of(low.pfn).migratetype(), Movable);
    assert_eq!(zones.validate(), Ok(()));

    let low = take(&zones, &ask(9, Movable)).unwrap();
    let high = take(&zones, &ask(9, Movable)).unwrap();
    memory.pageblocks().of(high.pfn).set_tag(PageblockTag::new(NODE, HighAtomic));
    put(&zones, low);
    put(&zones, high);
    assert_eq!(zone.stats().nr_free[9], [0, 1, 0, 1], "the reserve stays apart");
}

#[test]
fn large_foreign_blocks_are_claimed_whole() {
    let zones = zones(&FIXED);
    let block = take(&zones, &ask(0, Unmovable)).unwrap();
    let memory = zones.memory();
    for pageblock in [0, 1] {
        let tag = memory.pageblocks().at(crate::frame::PageblockIndex(pageblock)).tag();
        assert_eq!(tag, PageblockTag::new(NODE, Unmovable), "both halves of the 4 MiB block");
    }
    let mut by_type = [0; 4];
    for pageblock in (0..8).map(crate::frame::PageblockIndex) {
        by_type[memory.pageblocks().at(pageblock).tag().migratetype().index()] += 1;
    }
    assert_eq!(by_type, [2, 6, 0, 0]);
    assert_eq!(zones.zone(NODE).stats().fallbacks.claimed, 2);
    put(&zones, block);
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn a_mostly_free_pageblock_is_claimed_and_a_crowded_one_is_stolen_from() {
    let zones = zones(&ZoneConfig { initial_frames: 1024, ..FIXED });
    let (zone, memory) = (zones.zone(NODE), zones.memory());
    let mut singles: Vec<Block> =
        (0..1024).map(|_| take(&zones, &ask(0, Movable)).unwrap()).collect();
    // Half of the first pageblock is free, as a block of order 8: enough for a claim.
    singles.drain(..256).for_each(|block| put(&zones, block));
    let first = take(&zones, &ask(0, Unmovable)).unwrap();
    assert_eq!(memory.pageblocks().of(first.pfn).migratetype(), Unmovable, "claimed");
    assert_eq!(zone.stats().fallbacks, FallbackCounts { claimed: 1, stolen: 0 });
    // Of the second pageblock only 8 frames are free and all others movable, so a block is stolen.
    let last = singles.len();
    singles.drain(last - 8..).for_each(|block| put(&zones, block));
    assert_eq!(zones.validate(), Ok(()));
    let mut taken = 0;
    while let Some(block) = take(&zones, &ask(0, Unmovable)) {
        taken += 1;
        let expected = if taken <= 255 { Unmovable } else { Movable };
        assert_eq!(memory.pageblocks().of(block.pfn).migratetype(), expected);
    }
    assert_eq!(taken, 255 + 8);
    assert_eq!(zone.stats().fallbacks, FallbackCounts { claimed: 1, stolen: 8 });
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn fallback_order_follows_the_distance() {
    let far_two: fn(NodeId, NodeId) -> u32 =
        |one, other| if one.0.max(other.0) == 2 { 40 } else { 20 };
    let zones = zones(&ZoneConfig { nodes: 4, distance: far_two, initial_frames: 1024, ..FIXED });
    let order =
        |node: u8| -> Vec<u8> { zones.fallback_order(NodeId(node)).map(|node| node.0).collect() };
    assert_eq!(order(0), [0, 1, 3, 2]);
    assert_eq!(order(1), [1, 3, 0, 2], "equally far: the next one up first");
    assert_eq!(order(2), [2, 3, 0, 1]);
}

#[test]
fn the_tables_stay_below_eight_bytes_per_frame() {
    assert_eq!(crate::frame::Memory::metadata_per_frame_milli(), 7625);
    let zones = zones(&ZoneConfig { initial_frames: 16 << 10, ..FIXED });
    assert!(zones.memory().metadata_bytes() < (8 * 16) << 10);
}

#[test]
fn reclaimable_prefers_unmovable_blocks() {
    let zones = zones(&FIXED);
    let held = take(&zones, &ask(0, Unmovable)).unwrap();
    let block = take(&zones, &ask(0, Reclaimable)).unwrap();
    assert!(block.pfn.0 >= 1024, "order 10 of movable is larger than what unmovable has");
    put(&zones, held);
    put(&zones, block);
    assert_eq!(zones.validate(), Ok(()));
}

impl Zones {
    /// Puts one extent back.
    fn put_extent(&self, node: NodeId, pfn: Pfn, count: u32) {
        assert_eq!(self.put_extents(node, &[(pfn, count)], 1), 0);
    }
}
