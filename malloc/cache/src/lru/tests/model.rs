//! Models: pages are added, truncated and scanned at the same time, while the model checker chooses
//! which task runs next. Each page must be freed once, and the equations must hold at the end. The
//! tests of other eras' policies include this file too, so it uses only items of its parent module.

use super::*;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::thread;
use std::sync::Mutex;

pub(super) const SLOT: SlotIndex = SlotIndex(0);

/// An LRU of one slot and two nodes, and the pages that were freed.
pub(super) struct World<P: LruPolicy> {
    pub(super) set: LruSet<P>,
    pub(super) table: DescriptorTable,
    freed: Mutex<Vec<u32>>,
}

impl<P: LruPolicy> World<P> {
    /// An LRU with pages `0..listed` on the inactive list of node 0, the last one first, and
    /// descriptors for `pages`.
    pub(super) fn new(policy: P, add_batch: usize, listed: u32, pages: u32) -> Arc<Self> {
        let options = LruOptions { policy, add_batch, counts: true, frees_dead: true };
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

    pub(super) fn free(&self, page: PageNo) {
        free(&self.table, page);
        self.freed.lock().expect("no panic").push(page.0);
    }

    /// A new page, which the caller has pinned.
    pub(super) fn add(&self, page: u32, active: bool) {
        begin(&self.table, PageNo(page));
        self.set.add(&self.table, SLOT, PageNo(page), active, &mut |page| self.free(page));
    }

    /// Takes pages out of their index, and releases those without pins in one call.
    pub(super) fn truncate(&self, pages: &[u32]) {
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
    pub(super) fn scan(&self, most: usize, tries: bool) {
        let mut out = vec![PageNo(0); most];
        let waiting = if tries { Waiting::ForOthers } else { Waiting::Waits };
        let from = (NodeId(0), ListKind::Inactive);
        let taken = self.set.isolate(&self.table, from, waiting, &mut out);
        let back: Vec<_> =
            out[..taken].iter().enumerate().map(|(number, page)| (*page, number == 0)).collect();
        self.set.put_back(&self.table, SLOT, &back, &mut |page| self.free(page));
    }

    /// Checks that the pages in `freed` were freed once, and that all others are on lists.
    pub(super) fn finish(&self, freed: &[u32], others: u64) {
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

pub(super) fn explore(runs: usize, story: impl Fn() + Send + Sync + Clone + 'static) {
    let runs = std::env::var("QUARRY_MODEL_RUNS").map_or(runs, |text| text.parse().unwrap());
    explore_at_most(runs, story);
}

/// Like `explore`, but ignores `QUARRY_MODEL_RUNS`: a planted bug must show in this many runs.
pub(super) fn explore_at_most(runs: usize, story: impl Fn() + Send + Sync + Clone + 'static) {
    let config = || {
        let mut config = shuttle::Config::new();
        // The first thread builds tables of locks on its stack, which needs room.
        config.stack_size = 1 << 20;
        config
    };
    shuttle::Runner::new(PctScheduler::new(3, runs), config()).run(story.clone());
    shuttle::Runner::new(RandomScheduler::new(runs), config()).run(story);
}

/// Runs tasks concurrently until all have ended.
pub(super) fn together<P: LruPolicy, const N: usize>(
    world: &Arc<World<P>>,
    tasks: [fn(&World<P>); N],
) {
    let threads = tasks.map(|task| {
        let world = world.clone();
        thread::spawn(move || task(&world))
    });
    threads.into_iter().for_each(|thread| thread.join().expect("no assertion fails"));
}

/// Two tasks add pages through one add batch and truncate some of them, even while pages wait in
/// the batch; a third task drains it.
pub(super) fn add_and_truncate(policy: impl LruPolicy) {
    let world = World::new(policy, 3, 0, 8);
    let grow_and_shrink = |world: &World<_>, from: u32| {
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

/// Inner pages and sentinels leave a list of closed batches at the same time, while a scan takes
/// pages from the tail and new pages come to the front.
pub(super) fn release_and_scan(policy: impl LruPolicy) {
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
