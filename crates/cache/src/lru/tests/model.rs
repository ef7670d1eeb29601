//! The model checker chooses who runs next: pages are added, truncated and scanned at the same
//! time, under every policy. Each page is freed once, and the equations hold in the end. Beside
//! the policies stands a release that has forgotten a rule, which has to be found out.

use super::*;
use crate::lru::batches::INNER;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::thread;
use std::sync::Mutex;

const SLOT: SlotIndex = SlotIndex(0);

/// An LRU of one slot and two nodes, and who has been freed.
struct World {
    set: LruSet,
    table: DescriptorTable,
    freed: Mutex<Vec<u32>>,
}

impl World {
    /// An LRU with pages `0..listed` on the inactive list of node 0, the last one first, and
    /// descriptors for `pages`.
    fn new(policy: LruPolicy, add_batch: usize, listed: u32, pages: u32) -> Arc<Self> {
        let options = LruOptions { policy, add_batch, counts: true };
        let set = LruSet::build(fake_os(), options, 1, 2).expect("the fake OS serves");
        let world = Self { set, table: table(pages, 1), freed: Mutex::new(Vec::new()) };
        for page in 0..listed {
            world.add(page, false);
            assert!(!world.table.at(PageNo(page)).state.unpin(), "it is live");
        }
        world.set.drain_all(&world.table, &mut |_| panic!("all of them live"));
        assert_eq!(world.set.validate(&world.table), Ok(()));
        Arc::new(world)
    }

    fn free(&self, page: PageNo) {
        free(&self.table, page);
        self.freed.lock().expect("no panic").push(page.0);
    }

    /// A new page, which the caller has pinned.
    fn add(&self, page: u32, active: bool) {
        begin(&self.table, PageNo(page));
        self.set.add(&self.table, SLOT, PageNo(page), active, &mut |page| self.free(page));
    }

    /// Takes pages out of their index, and releases those that nobody pins in one call.
    fn truncate(&self, pages: &[u32]) {
        let own: Vec<PageNo> = pages
            .iter()
            .map(|page| PageNo(*page))
            .filter(|page| {
                let state = &self.table.at(*page).state;
                assert!(state.try_pin(State::LIVE).is_some(), "an index leads to it");
                state.clear(State::LIVE);
                state.unpin()
            })
            .collect();
        self.set.remove(&self.table, &own);
        own.iter().for_each(|page| self.free(*page));
    }

    /// Takes pages from the tail, and puts them back, the first one on the active list.
    fn scan(&self, most: usize, tries: bool) {
        let mut out = vec![PageNo(0); most];
        let from = ListKind::Inactive;
        let taken = match tries {
            true => self.set.isolate_anywhere(&self.table, NodeId(0), from, &mut out),
            false => self.set.isolate(&self.table, NodeId(0), from, &mut out),
        };
        let back: Vec<_> =
            out[..taken].iter().enumerate().map(|(number, page)| (*page, number == 0)).collect();
        self.set.put_back(&self.table, SLOT, &back, &mut |page| self.free(page));
    }

    /// Checks that the pages in `freed` were freed once, and that all others are on lists.
    fn finish(&self, freed: &[u32], others: u64) {
        self.set.drain_all(&self.table, &mut |page| self.free(page));
        assert_eq!(self.set.validate(&self.table), Ok(()));
        let mut all = self.freed.lock().expect("no panic").clone();
        all.sort_unstable();
        assert_eq!(all, freed);
        let sizes = [NodeId(0), NodeId(1)].map(|node| self.set.sizes(node));
        let listed: u64 = sizes.iter().map(|sizes| sizes.inactive + sizes.active).sum();
        assert_eq!(listed, others);
    }
}

fn explore(runs: usize, story: impl Fn() + Send + Sync + Clone + 'static) {
    let runs = std::env::var("QUARRY_MODEL_RUNS").map_or(runs, |text| text.parse().unwrap());
    explore_at_most(runs, story);
}

/// The same, whatever `QUARRY_MODEL_RUNS` is: what is broken has to show in one of these runs.
fn explore_at_most(runs: usize, story: impl Fn() + Send + Sync + Clone + 'static) {
    let config = || {
        let mut config = shuttle::Config::new();
        // Tables of locks are built on the stack of the first thread.
        config.stack_size = 1 << 20;
        config
    };
    shuttle::Runner::new(PctScheduler::new(3, runs), config()).run(story.clone());
    shuttle::Runner::new(RandomScheduler::new(runs), config()).run(story);
}

/// Runs tasks beside each other to their end.
fn together<const N: usize>(world: &Arc<World>, tasks: [fn(&World); N]) {
    let threads = tasks.map(|task| {
        let world = world.clone();
        thread::spawn(move || task(&world))
    });
    threads.into_iter().for_each(|thread| thread.join().expect("no assertion fails"));
}

/// Two tasks add pages through one add batch and truncate some of them, also while they wait
/// there; a third one drains.
fn add_and_truncate(policy: LruPolicy) {
    let world = World::new(policy, 3, 0, 8);
    let grow_and_shrink = |world: &World, from: u32| {
        (from..from + 4).for_each(|page| world.add(page, page % 2 == 0));
        world.truncate(&[from, from + 3]);
        for page in from..from + 4 {
            if world.table.at(PageNo(page)).state.unpin() {
                world.set.remove(&world.table, &[PageNo(page)]);
                world.free(PageNo(page));
            }
        }
    };
    let other = world.clone();
    let threads = [thread::spawn(move || grow_and_shrink(&other, 0)), {
        let other = world.clone();
        thread::spawn(move || other.set.drain(&other.table, SLOT, &mut |page| other.free(page)))
    }];
    grow_and_shrink(&world, 4);
    threads.into_iter().for_each(|thread| thread.join().expect("no assertion fails"));
    world.finish(&[0, 3, 4, 7], 4);
}

/// Neighbours leave a list of closed batches at the same time, inner pages and sentinels, while a
/// scan takes some from the tail, and new ones come to the front.
fn release_and_scan(policy: LruPolicy) {
    let world = World::new(policy, 4, 8, 12);
    together(
        &world,
        [
            |world| world.truncate(&[1, 3, 4]),
            |world| world.truncate(&[2, 5]),
            |world| {
                world.scan(3, false);
                world.scan(2, true);
            },
            |world| {
                for page in 8..12 {
                    world.add(page, false);
                    assert!(!world.table.at(PageNo(page)).state.unpin(), "it is live");
                }
            },
        ],
    );
    world.finish(&[1, 2, 3, 4, 5], 7);
}

/// A task closes the open batch, pages 3, 1 and 0, while page 1, which becomes an inner page, is
/// released and comes to the other node. The task must not go on from there.
fn release_while_a_batch_is_closed() {
    let world = World::new(LruPolicy::Batched, 3, 2, 6);
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

/// Page 1 is released while a scan moves it into another batch, which is closed at once: it is an
/// inner page again, and another batch lock is the right one.
fn release_while_a_scan_passes() {
    let world = World::new(LruPolicy::Batched, 3, 4, 4);
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
fn single_adds_and_truncates() {
    explore(300, || add_and_truncate(LruPolicy::Single));
}

#[test]
fn batched_adds_and_truncates() {
    explore(300, || add_and_truncate(LruPolicy::Batched));
}

#[test]
fn splice_adds_and_truncates() {
    explore(300, || add_and_truncate(LruPolicy::Splice));
}

#[test]
fn single_releases_and_scans() {
    explore(300, || release_and_scan(LruPolicy::Single));
}

#[test]
fn batched_releases_and_scans() {
    explore(1000, || release_and_scan(LruPolicy::Batched));
}

#[test]
fn splice_releases_and_scans() {
    explore(1000, || release_and_scan(LruPolicy::Splice));
}

/// Releases page 4, an end of a batch, and forgets that its neighbours become sentinels: page 5
/// stays an inner page beside a batch of another tag, page 3.
fn forget_promotion(world: &World) {
    world.truncate(&[4]);
    world.table.at(PageNo(5)).sentinel.store(INNER, Relaxed);
}

/// Page 3, a sentinel, and page 5 leave under different batch locks, but change each other's links.
fn leave_beside_a_forgotten_sentinel() {
    let world = World::new(LruPolicy::Batched, 4, 8, 8);
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
