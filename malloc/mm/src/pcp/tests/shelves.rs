//! Tests of the pageblocks that zones lend to groups of CPUs.

use super::suite::{Step, run, step};
use super::*;
use crate::frame::MigrateType::Movable;
use crate::frame::PAGEBLOCK_FRAMES;

const HERE: NodeId = NodeId(0);

/// Four slots with two shelves a node.
fn opened(config: PageConfig<V6_18>) -> PageAllocator<V6_18> {
    let pages = build(config, &SHORT);
    pages.store.shelves.open_more();
    assert!(pages.store.shelves.is_open());
    pages
}

fn taken(pages: &PageAllocator<V6_18>, slot: u32, count: u32) -> Pfn {
    let page = pages.alloc_exact(SlotIndex(slot), count, Movable, Order::ZERO);
    page.expect("64 MiB do").pfn
}

fn by_pairs(slot: SlotIndex) -> NodeId {
    NodeId((slot.0 / 2) as u8)
}

fn acquisitions(pages: &PageAllocator<V6_18>) -> u64 {
    pages.zones().zone(HERE).lock_stats().acquisitions
}

/// Extents come from shelves and go back to them, without the zone.
#[test]
fn a_shelf_serves_its_slots_without_the_zone() {
    let pages = opened(PageConfig { initial_frames: 16384, lists_extents: false, ..TINY });
    let kept = [0, 1].map(|slot| taken(&pages, slot, 100));
    let before = acquisitions(&pages);
    for round in 0..50 {
        let mine: Vec<Pfn> = (0..4).map(|slot| taken(&pages, slot, 20 + round)).collect();
        // Both groups free them, and they go home.
        for (slot, pfn) in (2..4).cycle().zip(mine) {
            pages.free_exact(SlotIndex(slot), pfn, 20 + round);
        }
        assert_eq!(pages.validate(), Ok(()));
    }
    assert_eq!(acquisitions(&pages) - before, 50, "only the checks took the lock of the zone");
    assert_eq!(pages.listed_frames(SlotIndex(0), HERE), PAGEBLOCK_FRAMES - 200);
    kept.iter().for_each(|pfn| pages.free_exact(SlotIndex(1), *pfn, 100));
    assert_eq!(pages.zones().budget().used(), 0, "a wholly free pageblock goes back at once");
    assert_eq!(pages.validate(), Ok(()));
}

/// A group takes extents of another before the zone lends it a pageblock.
#[test]
fn a_shelf_takes_from_others_before_the_zone_lends_more() {
    let pages = opened(PageConfig { initial_frames: 16384, lists_extents: false, ..TINY });
    let first = taken(&pages, 0, 200);
    let second = taken(&pages, 1, 200);
    assert_eq!(first.pageblock(), second.pageblock());
    let third = taken(&pages, 1, 200);
    assert_ne!(third.pageblock(), first.pageblock(), "there were 112 free frames");
    assert_eq!(taken(&pages, 1, 200).pageblock(), third.pageblock());
    let owners = [first, third].map(|pfn| pages.memory().pageblocks().of(pfn).shelf());
    assert_eq!(owners, [Some(0), Some(1)]);
    let fourth = third.plus(200);
    assert_eq!(pages.validate(), Ok(()));
    pages.drain_all();
    assert_eq!(pages.zones().budget().used(), 800, "the free frames are the zone's again");
    for pfn in [first, second, third, fourth] {
        pages.free_exact(SlotIndex(0), pfn, 200);
    }
    pages.drain_all();
    assert_eq!((pages.validate(), pages.zones().budget().used()), (Ok(()), 0));
}

/// A shelf gives what it has too much to the zone, and everything at the second look without use.
#[test]
fn a_shelf_keeps_little() {
    let pages = opened(PageConfig { initial_frames: 16384, lists_extents: false, ..TINY });
    let all: Vec<Pfn> = (0..60).map(|_| taken(&pages, 0, 200)).collect();
    for pfn in all.iter().step_by(2) {
        pages.free_exact(SlotIndex(0), *pfn, 200);
    }
    let kept = pages.listed_frames(SlotIndex(0), HERE);
    assert!((200..=3 * PAGEBLOCK_FRAMES).contains(&kept), "{kept} frames");
    assert_eq!(pages.validate(), Ok(()));
    (0..2).for_each(|_| {
        pages.decay(SlotIndex(0));
    });
    assert_eq!(pages.listed_frames(SlotIndex(0), HERE), 0);
    assert_eq!(pages.validate(), Ok(()));
    for pfn in all.iter().skip(1).step_by(2) {
        pages.free_exact(SlotIndex(0), *pfn, 200);
    }
    pages.drain_all();
    assert_eq!((pages.validate(), pages.zones().budget().used()), (Ok(()), 0));
}

/// Blocks may become free in a pageblock that is lent; its extents are the shelf's nevertheless.
#[test]
fn the_zone_takes_no_extents_of_a_lent_pageblock() {
    use MigrateType::Unmovable;
    let pages = opened(PageConfig { nodes: 2, node_of_slot: by_pairs, ..TINY });
    let mut owner = Owner::new(&pages);
    for step in [
        Step::Exact { slot: 2, count: 9, align: 0 },
        Step::Exact { slot: 2, count: 16, align: 8 },
        Step::Alloc { slot: 0, node: 0, order: 0, of: Unmovable },
        Step::FreeList { slot: 0, which: 0, count: 9 },
        Step::Alloc { slot: 3, node: 1, order: 1, of: Unmovable },
        Step::Exact { slot: 2, count: 24, align: 8 },
    ] {
        run(&mut owner, &pages, &step);
        assert_eq!(pages.validate(), Ok(()), "{step:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 48 }))]
    /// Requests for blocks and extents, frees, drains and purges: each frame has one owner.
    #[test]
    fn random_traffic_on_shelves(
        steps in prop::collection::vec(step(), 1..150), lists in any::<bool>(),
    ) {
        let config = PageConfig {
            nodes: 2,
            node_of_slot: by_pairs,
            lists_extents: lists,
            ..TINY
        };
        let pages = opened(config);
        let mut owner = Owner::new(&pages);
        for step in &steps {
            run(&mut owner, &pages, step);
            prop_assert_eq!(pages.validate(), Ok(()));
        }
        while owner.len() > 0 {
            run(&mut owner, &pages, &Step::Free { slot: 1, which: 0 });
        }
        pages.drain_all();
        prop_assert_eq!(pages.validate(), Ok(()));
        prop_assert_eq!(pages.zones().budget().used(), 0, "all came back");
    }
}
