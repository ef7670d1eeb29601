//! Models in which the model checker chooses the next task: batches under the zone's lock, lists
//! that another task holds, and drains and purges in between.

use super::*;
use crate::frame::Kind;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Arc;

/// One slot for all threads, batches of two, rings that overflow.
fn small() -> PageAllocator<Fixed> {
    let config =
        PageConfig { initial_frames: 32, grow: false, ..tiny(Fixed { batch: 2, high: 3 }) };
    PageAllocator::build_with(
        fake_os(),
        &config,
        1,
        |_, _| 0,
        &RingSizes { single: 4, small: 2, huge: 1 },
    )
    .expect("the fake OS refuses nothing")
}

#[test]
fn batches_of_two_threads_and_a_drain() {
    let story = || {
        let pages = Arc::new(small());
        let threads: Vec<_> = [MigrateType::Movable, MigrateType::Unmovable]
            .into_iter()
            .map(|of| {
                let pages = pages.clone();
                shuttle::thread::spawn(move || {
                    let slot = SlotIndex(0);
                    let mut out = [Page { pfn: Pfn::NONE, zeroed: false }; 3];
                    let got = pages.alloc_bulk(slot, request(0, of), &mut out);
                    for page in &out[..got] {
                        let kind = pages.frames().kind(page.pfn);
                        assert_eq!(kind, Kind::NONE, "somebody else has this page");
                        pages.frames().set_kind(page.pfn, 1, Kind::PAGES);
                    }
                    for page in &out[..got] {
                        pages.frames().set_kind(page.pfn, 1, Kind::NONE);
                    }
                    let list: Vec<_> =
                        out[..got].iter().map(|page| (page.pfn, Order::ZERO)).collect();
                    pages.free_list(slot, &list);
                })
            })
            .collect();
        pages.drain_all();
        pages.zones().purge(NodeId(0), Order::ZERO, usize::MAX);
        threads.into_iter().for_each(|thread| thread.join().expect("no assertion fails"));
        pages.drain_all();
        assert_eq!(pages.validate(), Ok(()));
        assert_eq!(pages.zones().zone(NodeId(0)).free(), 32);
    };
    let mut config = shuttle::Config::new();
    // A page allocator is built on the call stack of the first thread.
    config.stack_size = 1 << 20;
    shuttle::Runner::new(RandomScheduler::new(200), config.clone()).run(story);
    shuttle::Runner::new(PctScheduler::new(3, 200), config).run(story);
}

/// A list of extents, used without a lock: two tasks take and put, a third one ages and drains it.
#[test]
fn extents_of_two_threads_and_a_drain() {
    let story = || {
        let config = PageConfig { initial_frames: 512, grow: false, ..TINY };
        let sizes = RingSizes { single: 4, small: 2, huge: 1 };
        let pages = PageAllocator::build_with(fake_os(), &config, 1, |_, _| 0, &sizes)
            .expect("the fake OS refuses nothing");
        let (pages, slot) = (Arc::new(pages), SlotIndex(0));
        let first = pages.alloc_exact(slot, 40, MigrateType::Movable, Order::ZERO).expect("room");
        pages.free_exact(slot, first.pfn, 40);
        let threads: Vec<_> = [10, 20]
            .into_iter()
            .map(|count| {
                let pages = pages.clone();
                shuttle::thread::spawn(move || {
                    for _ in 0..2 {
                        let Some(pfn) = pages.alloc_listed(slot, count) else { return };
                        for frame in (0..count).map(|offset| pfn.plus(offset)) {
                            let kind = pages.frames().kind(frame);
                            assert_eq!(kind, Kind::NONE, "somebody else has this frame");
                            pages.frames().set_kind(frame, 1, Kind::PAGES);
                        }
                        pages.frames().set_kind(pfn, count, Kind::NONE);
                        if !pages.free_listed(slot, pfn, count) {
                            pages.free_exact(slot, pfn, count);
                        }
                    }
                })
            })
            .collect();
        pages.decay(slot);
        pages.decay(slot);
        pages.store.drain_extents_of(slot);
        threads.into_iter().for_each(|thread| thread.join().expect("no assertion fails"));
        assert_eq!(pages.validate(), Ok(()));
        pages.drain_all();
        assert_eq!(pages.zones().zone(NodeId(0)).free(), 512);
    };
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(RandomScheduler::new(200), config.clone()).run(story);
    shuttle::Runner::new(PctScheduler::new(3, 200), config).run(story);
}

/// Two slots with a shelf each: tasks take extents, free those of the other, and drain shelves.
#[test]
fn extents_of_two_shelves() {
    let story = || {
        let config = PageConfig { initial_frames: 1024, grow: false, lists_extents: false, ..TINY };
        let sizes = RingSizes { single: 4, small: 2, huge: 1 };
        let pages = PageAllocator::build_with(fake_os(), &config, 4, |_, _| 0, &sizes)
            .expect("the fake OS refuses nothing");
        pages.store.shelves.open_more();
        let pages = Arc::new(pages);
        let taken = |pages: &PageAllocator<V6_18>, slot, count| {
            let page = pages.alloc_exact(SlotIndex(slot), count, MigrateType::Movable, Order::ZERO);
            page.expect("there is room").pfn
        };
        let first = [0, 1].map(|slot| taken(&pages, slot, 100));
        let threads: Vec<_> = (0..2)
            .map(|slot| {
                let pages = pages.clone();
                shuttle::thread::spawn(move || {
                    let mine = taken(&pages, slot, 60);
                    for frame in (0..60).map(|offset| mine.plus(offset)) {
                        assert_eq!(pages.frames().kind(frame), Kind::NONE, "it has two owners");
                        pages.frames().set_kind(frame, 1, Kind::PAGES);
                    }
                    pages.free_exact(SlotIndex(slot), first[1 - slot as usize], 100);
                    pages.frames().set_kind(mine, 60, Kind::NONE);
                    pages.free_exact(SlotIndex(slot), mine, 60);
                })
            })
            .collect();
        pages.store.drain_extents_of(SlotIndex(0));
        pages.zones().purge(NodeId(0), Order::ZERO, usize::MAX);
        pages.store.drain_extents_of(SlotIndex(1));
        threads.into_iter().for_each(|thread| thread.join().expect("no assertion fails"));
        assert_eq!(pages.validate(), Ok(()));
        pages.drain_all();
        assert_eq!(pages.zones().zone(NodeId(0)).free(), 1024);
        assert_eq!(pages.validate(), Ok(()));
    };
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    shuttle::Runner::new(RandomScheduler::new(400), config.clone()).run(story);
    shuttle::Runner::new(PctScheduler::new(3, 400), config).run(story);
}
