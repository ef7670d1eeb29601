//! Purges that the system refuses in part, as older kernels do for locked memory.

use super::*;
use crate::frame::{FRAME_BYTES, PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES};
use MigrateType::Movable;

/// A zone of 8 pageblocks that were all in use, and are now free and dirty.
fn dirty_zones(os: &'static FakeOs) -> Zones {
    let zones = Zones::build(os, &FIXED).expect("nothing fails");
    let blocks: Vec<Block> =
        core::iter::from_fn(|| take(&zones, &ask(0, Movable))).take(4096).collect();
    assert_eq!(blocks.len(), 4096, "the whole zone");
    blocks.into_iter().for_each(|block| put(&zones, block));
    assert_eq!(zones.zone(NODE).dirty(), 4096);
    zones
}

#[test]
fn a_refused_pageblock_is_skipped() {
    let os = fake_os();
    let zones = dirty_zones(os);
    let (zone, memory) = (zones.zone(NODE), zones.memory());
    // A frame in the first block of 4 MiB.
    os.lock_in_memory(memory.arena().address(Pfn(5)), FRAME_BYTES);
    let purged = zones.purge(NODE, Order::PAGEBLOCK, usize::MAX);
    assert_eq!(purged, 6 * PAGEBLOCK_BYTES, "all but the block that is locked in part");
    assert_eq!(zone.dirty(), 2 * PAGEBLOCK_FRAMES);
    assert_eq!(os.purged_bytes(), purged);
    assert_eq!(zones.validate(), Ok(()));
    // Once the frame is unlocked, its block is purged as well.
    os.lock_in_memory(memory.arena().address(Pfn(5)), 0);
    assert_eq!(zones.purge(NODE, Order::PAGEBLOCK, usize::MAX), 2 * PAGEBLOCK_BYTES);
    assert_eq!(zone.dirty(), 0);
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn what_lies_around_a_refused_extent_goes() {
    let os = fake_os();
    let zones = Zones::build(os, &FIXED).expect("nothing fails");
    let (zone, memory) = (zones.zone(NODE), zones.memory());
    let blocks: Vec<Block> = (0..64).map(|_| take(&zones, &ask(0, Movable)).unwrap()).collect();
    blocks.iter().step_by(2).for_each(|block| put(&zones, *block));
    os.lock_in_memory(memory.arena().address(blocks[10].pfn), FRAME_BYTES);
    let purged = zones.purge(NODE, Order::ZERO, usize::MAX);
    assert_eq!((purged, zone.dirty()), (31 * FRAME_BYTES, 1), "one of 32 single frames is locked");
    assert_eq!(zones.validate(), Ok(()));
    // The next request gets the frame, and learns that it is not zero.
    let zeroed: Vec<bool> =
        (0..32).map(|_| take(&zones, &ask(0, Movable)).unwrap().zeroed).collect();
    assert_eq!(zeroed.iter().filter(|zeroed| !**zeroed).count(), 1);
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn extents_around_a_refused_one_go() {
    let os = fake_os();
    let zones = Zones::build(os, &FIXED).expect("nothing fails");
    let (zone, memory) = (zones.zone(NODE), zones.memory());
    let extents: Vec<Page> =
        (0..8).map(|_| zones.take_extent(NODE, 50, Order::ZERO).expect("there is room")).collect();
    (0..8).step_by(2).for_each(|at| zones.put_extent(NODE, extents[at].pfn, 50));
    os.lock_in_memory(memory.arena().address(extents[2].pfn), 50 * FRAME_BYTES);
    assert_eq!(zones.purge(NODE, Order::ZERO, usize::MAX), 150 * FRAME_BYTES);
    assert_eq!(zone.dirty(), 50);
    assert_eq!(zones.validate(), Ok(()));
}

/// If most memory is locked, a bounded purge makes a bounded number of calls, and the next purge
/// continues where it ended.
#[test]
fn steps_go_on_behind_what_was_refused() {
    let os = fake_os();
    let config = ZoneConfig { reserve_bytes: 1 << 30, initial_frames: 256 * 512, ..FIXED };
    let zones = Zones::build(os, &config).expect("nothing fails");
    let (zone, memory) = (zones.zone(NODE), zones.memory());
    // One dirty frame in each pageblock, whose other frames are in use.
    let blocks: Vec<Block> =
        core::iter::from_fn(|| take(&zones, &ask(9, Movable))).take(256).collect();
    for block in &blocks {
        put(&zones, Block { order: Order::ZERO, ..*block });
    }
    assert_eq!(zone.dirty(), 256);
    os.lock_in_memory(memory.arena().base(), 200 * PAGEBLOCK_BYTES);
    let step = || zones.purge(NODE, Order::ZERO, 1 << 20);
    let mut steps = 0;
    while zone.dirty() > 200 {
        let before = os.refused_purges();
        step();
        assert!(os.refused_purges() - before <= 64, "a step is bounded");
        steps += 1;
        assert!(steps < 10, "{} frames stay dirty", zone.dirty());
    }
    os.lock_in_memory(memory.arena().base(), 0);
    assert_eq!(zones.purge(NODE, Order::ZERO, usize::MAX), 200 * FRAME_BYTES, "no end was met");
    assert_eq!(zone.dirty(), 0);
}
