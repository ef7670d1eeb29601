//! Extents of exact numbers of frames: the places where they are taken, and random operations on
//! extents and blocks, compared with an oracle that knows each frame.

use super::{FIXED, NODE, ask, put, take, zones};
use crate::frame::{
    FrameBits, MigrateType, Order, PAGEBLOCK_BYTES, PAGEBLOCK_FRAMES, PageblockIndex, Pfn, Side,
    Wanted,
};
use crate::zone::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

use MigrateType::{Movable, Unmovable};

fn run(zones: &Zones, count: u32) -> Page {
    zones.take_extent(NODE, count, Order::ZERO).expect("the zone has room")
}

#[test]
fn free_neighbours_are_one_extent_though_no_buddies() {
    let zones = zones(&FIXED);
    let extents: Vec<Page> = (0..4).map(|_| run(&zones, 100)).collect();
    for (at, extent) in extents.iter().enumerate() {
        assert_eq!(
            *extent,
            Page { pfn: Pfn(at as u32 * 100), zeroed: true },
            "one behind the other"
        );
    }
    zones.put_extent(NODE, extents[1].pfn, 100);
    zones.put_extent(NODE, extents[2].pfn, 100);
    let lists = zones.zone(NODE).free_on_lists();
    assert_eq!(run(&zones, 112).pfn, Pfn(400), "the shortest extent that holds it is the last");
    assert_eq!(run(&zones, 200), Page { pfn: Pfn(100), zeroed: false });
    assert_eq!(zones.zone(NODE).free_on_lists(), lists, "no block was touched");
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn an_extent_grows_into_what_is_free_behind_it() {
    let zones = zones(&FIXED);
    let extents: Vec<Page> = (0..3).map(|_| run(&zones, 100)).collect();
    zones.put_extent(NODE, extents[1].pfn, 100);
    assert!(!zones.take_extent_at(NODE, extents[1].pfn, 101), "the last one is not free");
    assert!(zones.take_extent_at(NODE, extents[1].pfn, 60));
    assert!(zones.take_extent_at(NODE, extents[1].pfn.plus(60), 40));
    assert_eq!(zones.budget().used(), 300);
    assert_eq!(zones.take_extent_with_room(NODE, 106).map(|extent| extent.pfn), Some(Pfn(300)));
    assert_eq!(zones.take_extent_with_room(NODE, 54), None, "106 frames are left");
    assert_eq!(zones.take_extent_with_room(NODE, 256), None, "a whole pageblock is never kept");
    assert_eq!(zones.validate(), Ok(()));
    assert_eq!(zones.budget().used(), 406);
}

#[test]
fn a_pageblock_that_is_free_again_is_a_free_block() {
    let zones = zones(&FIXED);
    let extents: Vec<Page> = (0..20).map(|_| run(&zones, 50)).collect();
    assert_eq!(zones.budget().used(), 1000);
    assert_eq!(zones.zone(NODE).stats().in_extents, 2 * PAGEBLOCK_FRAMES - 1000);
    extents.iter().for_each(|extent| zones.put_extent(NODE, extent.pfn, 50));
    let stats = zones.zone(NODE).stats();
    assert_eq!((stats.in_extents, stats.free), (0, 4096));
    assert_eq!(stats.nr_free[10].iter().sum::<u32>(), 4, "merged as far as can be");
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn what_is_free_between_blocks_is_gathered() {
    let zones = zones(&FIXED);
    let blocks: Vec<Block> = (0..8).map(|_| take(&zones, &ask(6, Movable)).unwrap()).collect();
    // Frames 64..192 and 256..320 are free, and none of these blocks are buddies.
    [1, 2, 4].into_iter().for_each(|at| put(&zones, blocks[at]));
    assert_eq!(run(&zones, 120).pfn, Pfn(64), "over the edge between two blocks");
    assert_eq!(zones.validate(), Ok(()));
    assert_eq!(zones.zone(NODE).stats().in_extents, 128 + 64 - 120);
}

#[test]
fn extents_that_are_kept_serve_blocks_where_nothing_else_does() {
    let zones = zones(&ZoneConfig { initial_frames: 1024, ..FIXED });
    let extents: Vec<Page> = (0..9).map(|_| run(&zones, 50)).collect();
    (0..9).step_by(2).for_each(|at| zones.put_extent(NODE, extents[at].pfn, 50));
    let used = zones.budget().used();
    while take(&zones, &ask(0, Unmovable)).is_some() {}
    assert_eq!(zones.budget().used() - used, 512, "what is kept is on no list");
    assert!(zones.flush_extents_for(NODE, Order::new(4)), "extents of 50 have blocks of 16");
    let mut taken = 0;
    while take(&zones, &ask(0, Unmovable)).is_some() {
        taken += 1;
    }
    assert_eq!(taken, 5 * 50 + 62, "all that was kept");
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn only_dirty_frames_are_purged_and_they_stay_where_they_are() {
    let zones = zones(&FIXED);
    let extents: Vec<Page> = (0..4).map(|_| run(&zones, 100)).collect();
    zones.put_extent(NODE, extents[1].pfn, 100);
    let zone = zones.zone(NODE);
    assert_eq!(zone.dirty(), 100);
    assert_eq!(zones.purge(NODE, Order::PAGEBLOCK, usize::MAX), 0, "no whole pageblock");
    assert_eq!(zones.purge(NODE, Order::ZERO, usize::MAX), 100 << 12);
    assert_eq!((zone.dirty(), zone.kept_in_extents()), (0, 212));
    assert_eq!(run(&zones, 90), Page { pfn: Pfn(100), zeroed: true });
    assert_eq!(zones.validate(), Ok(()));
}

#[test]
fn pageblocks_that_are_given_back_serve_mappings_and_zones() {
    let zones = zones(&ZoneConfig { initial_frames: 0, grow: true, ..FIXED });
    let (zone, memory) = (zones.zone(NODE), zones.memory());
    let mut blocks = Vec::new();
    while zones.grow(NODE, &ask(9, Movable), Urgency::Last) {
        blocks.push(take(&zones, &ask(9, Movable)).expect("the zone has grown for it"));
    }
    let map = |count| {
        memory.take(Wanted { side: Side::Mapping, count, align: 1, room: 0 }).map(|it| it.first)
    };
    assert!(map(1).is_err(), "zones have the whole window");
    let left = zone.managed() / PAGEBLOCK_FRAMES - blocks.len() as u32;
    assert_eq!(zones.give_back(), left as usize * PAGEBLOCK_BYTES, "all that was not taken");
    blocks.drain(..).for_each(|block| put(&zones, block));
    assert!(zones.give_back() > 0);
    assert_eq!((zone.managed(), zone.free(), memory.arena().pageblocks_taken()), (0, 0, 0));
    assert_eq!(zones.validate(), Ok(()));
    let first = map(32).expect("the whole window is free");
    memory.give_back(first, 32);
    assert!(zones.grow(NODE, &ask(9, Unmovable), Urgency::Last));
    assert_eq!(zones.validate(), Ok(()));
}

#[derive(Clone, Debug)]
enum Step {
    TakeExtent { count: u32, align: u8 },
    TakeBlocks { order: u8, of: MigrateType, count: u32 },
    Put { which: usize, count: usize },
    TakeWithRoom { count: u32 },
    Extend { which: usize, more: u32 },
    Trim { which: usize, kept: u32 },
    Reserve { which: usize },
    Unreserve,
    Purge,
    FlushFor { order: u8 },
    Flush,
    GiveBack,
    Grow { order: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let of = prop::sample::select(&MigrateType::ALL[..3]);
    prop_oneof![
        12 => (prop_oneof![9u32..40, EXTENT_FRAMES], prop_oneof![4 => Just(0u8), 1 => 1u8..=8])
            .prop_map(|(count, align)| Step::TakeExtent { count, align }),
        4 => (prop_oneof![3 => 0u8..=4, 1 => 5u8..=10], of, 1u32..20)
            .prop_map(|(order, of, count)| Step::TakeBlocks { order, of, count }),
        10 => (any::<usize>(), 1usize..12).prop_map(|(which, count)| Step::Put { which, count }),
        3 => prop_oneof![9u32..40, EXTENT_FRAMES].prop_map(|count| Step::TakeWithRoom { count }),
        4 => (any::<usize>(), 1u32..60).prop_map(|(which, more)| Step::Extend { which, more }),
        2 => (any::<usize>(), any::<u32>()).prop_map(|(which, kept)| Step::Trim { which, kept }),
        1 => any::<usize>().prop_map(|which| Step::Reserve { which }),
        1 => Just(Step::Unreserve),
        1 => Just(Step::Purge),
        1 => (0u8..=10).prop_map(|order| Step::FlushFor { order }),
        1 => Just(Step::Flush),
        1 => Just(Step::GiveBack),
        1 => (0u8..=10).prop_map(|order| Step::Grow { order }),
    ]
}

/// Frames of eight pageblocks: as many as a request examines on one list.
const FRAMES: u32 = 8 * PAGEBLOCK_FRAMES;
/// Frames of the window.
const ALL_FRAMES: u32 = 32 * PAGEBLOCK_FRAMES;

/// The owner and the state of each frame.
struct World {
    zones: Zones,
    /// Maps the first frame of each allocation to (its number of frames, whether it is an extent).
    owned: BTreeMap<u32, (u32, bool)>,
    /// True once the frame was written, until it is zero again.
    written: Vec<bool>,
}

impl World {
    fn new() -> Self {
        let zones = zones(&ZoneConfig { initial_frames: FRAMES, grow: true, ..FIXED });
        Self { zones, owned: BTreeMap::new(), written: vec![false; ALL_FRAMES as usize] }
    }

    fn zone(&self) -> &Zone {
        self.zones.zone(NODE)
    }

    fn receive(&mut self, pfn: Pfn, count: u32, zeroed: bool, is_extent: bool) {
        let end = pfn.0 + count;
        if let Some((first, (frames, _))) = self.owned.range(..end).next_back() {
            assert!(first + frames <= pfn.0, "{pfn:?} was handed out twice");
        }
        let written = &mut self.written[pfn.0 as usize..end as usize];
        assert!(!zeroed || written.iter().all(|written| !written), "{pfn:?} is not zero");
        written.fill(true);
        self.owned.insert(pfn.0, (count, is_extent));
    }

    /// Returns whether a pageblock keeps `count` neighbouring frames from a multiple of `align` on.
    fn is_kept_somewhere(&self, count: u32, align: u32) -> bool {
        (0..ALL_FRAMES / PAGEBLOCK_FRAMES).any(|index| {
            let kept: FrameBits =
                self.zones.memory().pageblocks().at(PageblockIndex(index)).extents();
            (0..=PAGEBLOCK_FRAMES - count)
                .step_by(align as usize)
                .any(|at| (at..at + count).all(|frame| kept.count_in(frame, 1) == 1))
        })
    }

    fn take_extent(&mut self, count: u32, align: Order) {
        let was_cached = self.is_kept_somewhere(count, align.frames());
        let was_cached = was_cached && self.zone().managed() <= FRAMES;
        let lists = self.zone().free_on_lists();
        match self.zones.take_extent(NODE, count, align) {
            Some(Page { pfn, zeroed }) => {
                assert!(pfn.is_aligned(align), "{pfn:?} for alignment {}", align.get());
                assert_eq!(pfn.pageblock(), pfn.plus(count - 1).pageblock(), "in one pageblock");
                self.receive(pfn, count, zeroed, true);
                if was_cached {
                    assert_eq!(self.zone().free_on_lists(), lists, "kept frames go first");
                }
            }
            None => {
                assert!(!was_cached, "{count} frames were kept in one extent");
                let order = Order::covering(count).max(align);
                let flags = AllocFlags::default();
                assert!(!self.zone().watermark_ok(order, Mark::Low, flags), "a block was free");
            }
        }
    }

    fn is_cached(&self, pfn: Pfn, count: u32) -> bool {
        let extents = |frame: u32| self.zones.memory().pageblocks().of(Pfn(frame)).extents();
        (pfn.0..pfn.0 + count).all(|at| extents(at).count_in(at % PAGEBLOCK_FRAMES, 1) == 1)
    }

    fn take_extent_with_room(&mut self, count: u32) {
        let lists = self.zone().free_on_lists();
        if let Some(Page { pfn, zeroed }) = self.zones.take_extent_with_room(NODE, count) {
            assert_eq!(pfn.pageblock(), pfn.plus(2 * count - 1).pageblock(), "in one pageblock");
            assert!(self.is_cached(pfn.plus(count), count), "as many are free behind {pfn:?}");
            self.receive(pfn, count, zeroed, true);
        }
        assert_eq!(self.zone().free_on_lists(), lists, "no block was touched");
    }

    /// Takes the frames after an extent, for it to grow, if they are free in extents.
    fn extend(&mut self, which: usize, more: u32) {
        let Some((pfn, count, true)) = self.nth(which) else { return };
        let end = pfn.plus(count);
        let more = more.min((PAGEBLOCK_FRAMES - pfn.0 % PAGEBLOCK_FRAMES) - count);
        if more == 0 {
            return;
        }
        let was_cached = self.is_cached(end, more);
        assert_eq!(self.zones.take_extent_at(NODE, end, more), was_cached, "{more} behind {pfn:?}");
        if was_cached {
            self.receive(end, more, false, true);
            self.owned.remove(&end.0);
            self.owned.insert(pfn.0, (count + more, true));
        }
    }

    fn take_blocks(&mut self, order: u8, of: MigrateType, count: u32) {
        let mut taken = Vec::new();
        self.zones.take(NODE, &ask(order, of), count, Destination::User, |pfn, zeroed| {
            taken.push((pfn, zeroed));
        });
        for (pfn, zeroed) in taken {
            self.receive(pfn, 1 << order, zeroed, false);
        }
    }

    fn nth(&self, which: usize) -> Option<(Pfn, u32, bool)> {
        let nth = which.checked_rem(self.owned.len())?;
        self.owned.iter().nth(nth).map(|(pfn, (count, is_extent))| (Pfn(*pfn), *count, *is_extent))
    }

    fn put(&mut self, which: usize) {
        let Some((pfn, count, is_extent)) = self.nth(which) else { return };
        self.owned.remove(&pfn.0);
        if is_extent {
            self.zones.put_extent(NODE, pfn, count);
        } else {
            put(&self.zones, Block { pfn, order: Order::covering(count), zeroed: false });
        }
    }

    fn purge(&mut self) {
        let dirty = self.zone().dirty();
        let purge = || self.zones.purge(NODE, Order::ZERO, usize::MAX);
        let mut bytes = purge();
        // A pageblock of clean extents may have become a block that merged with a dirty block.
        while self.zone().dirty() > 0 {
            let more = purge();
            assert!(more > 0, "{} frames stay dirty", self.zone().dirty());
            bytes += more;
        }
        assert!(bytes >= (dirty as usize) << 12, "{bytes} bytes of {dirty} frames");
        let is_owned = |frame: u32| {
            let below = self.owned.range(..=frame).next_back();
            below.is_some_and(|(first, (count, _))| frame < first + count)
        };
        let written = (0..ALL_FRAMES).map(is_owned).collect();
        self.written = written;
    }

    fn step(&mut self, step: &Step) {
        let memory = self.zones.memory();
        match *step {
            Step::TakeExtent { count, align } => self.take_extent(count, Order::new(align)),
            Step::TakeWithRoom { count } => self.take_extent_with_room(count),
            Step::Extend { which, more } => self.extend(which, more),
            Step::TakeBlocks { order, of, count } => self.take_blocks(order, of, count),
            Step::Put { which, count } => (0..count).for_each(|more| self.put(which + 3 * more)),
            Step::Trim { which, kept } => {
                if let Some((pfn, count, true)) = self.nth(which) {
                    let kept = 1 + kept % (count - 1).max(1);
                    if kept < count {
                        self.owned.insert(pfn.0, (kept, true));
                        self.zones.put_extent(NODE, pfn.plus(kept), count - kept);
                    }
                }
            }
            Step::Reserve { which } => {
                if let Some((pfn, count, false)) = self.nth(which) {
                    self.zones.reserve_high_atomic(NODE, pfn, Order::covering(count));
                }
            }
            Step::Unreserve => {
                self.zones.unreserve_high_atomic(NODE, Movable, true);
            }
            Step::Purge => self.purge(),
            Step::FlushFor { order } => {
                self.zones.flush_extents_for(NODE, Order::new(order));
            }
            Step::GiveBack => {
                self.zones.flush_extents();
                let whole: u32 = self.zone().stats().nr_free[9..]
                    .iter()
                    .zip([1, 2])
                    .map(|(of, size)| of[..3].iter().sum::<u32>() * size)
                    .sum();
                let managed = self.zone().managed();
                let bytes = whole as usize * PAGEBLOCK_BYTES;
                assert_eq!(self.zones.give_back(), bytes, "pageblocks that are free as a whole");
                assert_eq!(self.zone().managed(), managed - whole * PAGEBLOCK_FRAMES);
                let taken = memory.arena().pageblocks_taken() as u32 * PAGEBLOCK_FRAMES;
                assert_eq!(taken, self.zone().managed());
                // Pageblocks that come back from the window are zero.
                let is_ours = |frame| memory.pageblocks().of(Pfn(frame)).tag().node().is_some();
                for frame in (0..ALL_FRAMES).filter(|frame| !is_ours(*frame)) {
                    self.written[frame as usize] = false;
                }
            }
            Step::Grow { order } => {
                self.zones.grow(NODE, &ask(order, Movable), Urgency::Last);
            }
            Step::Flush => {
                self.zones.flush_extents();
                assert_eq!(self.zone().kept_in_extents(), 0);
            }
        }
    }

    fn check(&self) {
        let taken: u32 = self.owned.values().map(|(count, _)| count).sum();
        assert_eq!(self.zones.budget().used(), taken, "used = handed out");
        let managed = self.zone().managed();
        assert_eq!(self.zone().free() + taken, managed, "free + handed out = managed");
        assert_eq!(self.zones.validate(), Ok(()));
    }
}

/// A quarter of the usual number of cases, because each case checks every frame at every step.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: (usual.cases / 4).max(1), failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn extents_and_blocks_share_the_frames(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.check();
        }
        while !world.owned.is_empty() {
            world.put(0);
        }
        world.check();
        world.zones.flush_extents();
        while world.zones.unreserve_high_atomic(NODE, Movable, true) {}
        world.check();
        let pageblocks = world.zone().managed() / PAGEBLOCK_FRAMES;
        let bytes = pageblocks as usize * PAGEBLOCK_BYTES;
        assert_eq!(world.zones.give_back(), bytes, "all of it merges again");
        world.check();
    }
}
