//! Models of cases that only batches have. In one, a release breaks a rule of batches, and the
//! model checker must detect this.

use super::model::{
    SLOT, World, add_and_truncate, explore, explore_at_most, release_and_scan, together,
};
use super::*;
use crate::lru::batches::INNER;

/// A task closes the open batch of pages 3, 1 and 0, and so makes page 1 an inner page. During this
/// page 1 is released and reused on the other node. The task must not continue from page 1.
fn release_while_a_batch_is_closed() {
    let world = World::new(Batched, 3, 2, 6);
    together(
        &world,
        [
            |world| {
                for (page, active) in [(3, false), (4, true), (5, true)] {
                    world.add(page, active);
                }
            },
            |world| {
                world.truncate(&[1]);
                world.table.at(PageNo(1)).node.store(1, Relaxed);
                world.add(1, false);
                world.set.drain(&world.table, SLOT, &mut |page| world.free(page));
            },
        ],
    );
    world.finish(&[1], 5);
}

/// Page 1 is released while a scan moves it into another batch, which is closed at once. So page 1
/// is an inner page again, but under another batch lock.
fn release_while_a_scan_passes() {
    let world = World::new(Batched, 3, 4, 4);
    together(&world, [|world| world.truncate(&[1]), |world| world.scan(2, false)]);
    world.finish(&[1], 3);
}

#[test]
fn a_page_that_leaves_a_batch_while_it_is_closed() {
    explore(1000, release_while_a_batch_is_closed);
}

#[test]
fn a_page_that_changes_its_batch_while_it_is_released() {
    explore(1000, release_while_a_scan_passes);
}

#[test]
fn batched_adds_and_truncates() {
    explore(300, || add_and_truncate(Batched));
}

#[test]
fn splice_adds_and_truncates() {
    explore(300, || add_and_truncate(Splice));
}

#[test]
fn batched_releases_and_scans() {
    explore(1000, || release_and_scan(Batched));
}

#[test]
fn splice_releases_and_scans() {
    explore(1000, || release_and_scan(Splice));
}

/// Releases page 4, an end of a batch, without making its neighbours sentinels. Page 5 then stays
/// an inner page beside page 3, which has another tag.
fn forget_promotion(world: &World<Batched>) {
    world.truncate(&[4]);
    world.table.at(PageNo(5)).sentinel.store(INNER, Relaxed);
}

/// Page 3 (a sentinel) and page 5 leave under different batch locks, but change each other's links.
fn leave_beside_a_forgotten_sentinel() {
    let world = World::new(Batched, 4, 8, 8);
    forget_promotion(&world);
    together(&world, [|world| world.truncate(&[3]), |world| world.truncate(&[5])]);
    let listed = world.set.sizes(NodeId(0)).inactive;
    assert_eq!(listed, 5, "sizes are counted, whatever the links say");
    let mut at = Some(PageNo(7));
    let mut pages = Vec::new();
    while let Some(page) = at {
        pages.push(page.0);
        at = quarry_mm::frame::Links::next(&world.table, page).get();
    }
    assert_eq!(pages, [7, 6, 2, 1, 0], "links of the pages that stay");
}

#[test]
fn a_forgotten_promotion_is_found() {
    let found =
        std::panic::catch_unwind(|| explore_at_most(1000, leave_beside_a_forgotten_sentinel));
    let message = found.expect_err("no schedule shows the broken links");
    let text = message.downcast_ref::<String>().expect("a text");
    assert!(text.contains("links of the pages that stay"), "{text}");
}
