//! Tests of the extents that CPUs keep: of the list alone against a naive oracle, in the page
//! allocator, and with threads that share a list.

use super::*;
use crate::frame::MigrateType::Movable;
use crate::frame::PAGEBLOCK_FRAMES;
use crate::pcp::extent_list::{EXTENTS, ExtentList};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Barrier;

const SLOT: SlotIndex = SlotIndex(0);
const HERE: NodeId = NodeId(0);

fn taken(pages: &PageAllocator<V6_18>, count: u32) -> Pfn {
    pages.alloc_exact(SLOT, count, Movable, Order::ZERO).expect("64 MiB do").pfn
}

fn acquisitions(pages: &PageAllocator<V6_18>) -> u64 {
    pages.zones().zone(HERE).lock_stats().acquisitions
}

#[test]
fn the_extent_freed_last_serves_the_next_request_without_the_zone() {
    let pages = build(TINY, &RingSizes::default());
    let first = taken(&pages, 200);
    let (before, used) = (acquisitions(&pages), pages.zones().budget().used());
    pages.free_exact(SLOT, first, 200);
    assert_eq!(pages.listed_frames(SLOT, HERE), 200);
    let again = pages.alloc_exact(SLOT, 200, Movable, Order::ZERO);
    assert_eq!(again, Some(Page { pfn: first, zeroed: false }), "it may hold data");
    assert!(pages.free_listed(SLOT, first, 200));
    assert_eq!(pages.alloc_listed(SLOT, 200), Some(first));
    assert_eq!(pages.alloc_listed(SLOT, 200), None, "it was the only one");
    assert_eq!(acquisitions(&pages), before);
    assert_eq!(pages.zones().budget().used(), used, "what is listed is in use for the budget");
    assert_eq!(pages.extents_passed_outside(), (1, 1));
    let counters = pages.pcp_counters(SLOT);
    assert_eq!((counters.allocs, counters.frees), (2, 2));
    assert_eq!(pages.validate(), Ok(()));
}

#[test]
fn neighbours_are_one_extent_and_a_request_takes_its_front() {
    let pages = build(TINY, &RingSizes::default());
    let _held = [(); 4].map(|()| taken(&pages, 250));
    let [first, second, _] = [(); 3].map(|()| taken(&pages, 40));
    assert_eq!(second, first.plus(40), "one behind the other");
    pages.free_exact(SLOT, second, 40);
    pages.free_exact(SLOT, first, 40);
    assert_eq!(pages.alloc_listed(SLOT, 80), Some(first));
    pages.free_exact(SLOT, first, 80);
    assert_eq!(pages.alloc_listed(SLOT, 30), Some(first));
    let aligned = pages.alloc_exact(SLOT, 16, Movable, Order::new(9)).expect("64 MiB do");
    assert!(aligned.pfn.is_aligned(Order::new(9)), "the listed one begins elsewhere");
    assert_eq!(pages.alloc_listed(SLOT, 50), Some(first.plus(30)));
    assert_eq!(pages.alloc_listed(SLOT, 9), None);
    assert_eq!(pages.validate(), Ok(()));
}

#[test]
fn an_allocation_grows_into_listed_frames() {
    let pages = build(TINY, &RingSizes::default());
    let _held = [(); 4].map(|()| taken(&pages, 250));
    let [first, second, third, _] = [(); 4].map(|()| taken(&pages, 20));
    pages.free_exact(SLOT, second, 20);
    assert!(pages.extend_exact(SLOT, first, 20, 35), "all of it is listed");
    assert_eq!(pages.listed_frames(SLOT, HERE), 5);
    assert!(!pages.extend_exact(SLOT, first, 35, 50), "the third one is in use");
    pages.trim_exact(SLOT, third, 20, 10);
    pages.free_exact(SLOT, third, 10);
    // Some of these frames are on the list and others in the zone, so the list's extents leave it.
    assert!(pages.extend_exact(SLOT, first, 35, 58));
    assert_eq!(pages.listed_frames(SLOT, HERE), 0);
    assert_eq!(pages.validate(), Ok(()));
}

#[test]
fn a_list_is_bounded_by_what_is_in_use() {
    let pages = build(TINY, &RingSizes::default());
    let extents: Vec<Pfn> = (0..100).map(|_| taken(&pages, 20)).collect();
    for (freed, extent) in extents.iter().enumerate() {
        pages.free_exact(SLOT, *extent, 20);
        let (listed, used) = (pages.listed_frames(SLOT, HERE), pages.zones().budget().used());
        // The memory in use falls, so the list's bound falls too, by one extent at a time.
        assert!(listed <= 20 + (used + 40) / 8, "{listed} of {used} after {freed}");
        assert_eq!(used, 2000 - 20 * (freed as u32 + 1) + listed);
    }
    assert!(pages.listed_frames(SLOT, HERE) <= 40, "one extent, and its neighbour");
    assert_eq!(pages.validate(), Ok(()));
    pages.drain_all();
    assert_eq!(pages.zones().budget().used(), 0);
}

#[test]
fn nothing_is_listed_where_memory_is_short_or_no_delay_is_wanted() {
    let limited = PageConfig { limit_frames: 1000, ..TINY };
    let pages = build(limited, &RingSizes::default());
    let (first, second) = (taken(&pages, 200), taken(&pages, 200));
    assert!(pages.zones().budget().charge_mapping(590));
    assert!(!pages.free_listed(SLOT, first, 200), "10 frames are left of the limit");
    pages.free_exact(SLOT, first, 200);
    assert_eq!(pages.zones().budget().used(), 790);
    pages.free_exact(SLOT, second, 200);
    assert_eq!(pages.listed_frames(SLOT, HERE), 200, "there is room again");
    let pages = build(PageConfig { lists_extents: false, ..TINY }, &RingSizes::default());
    let first = taken(&pages, 200);
    assert!(!pages.free_listed(SLOT, first, 200));
    pages.free_exact(SLOT, first, 200);
    assert_eq!(pages.zones().budget().used(), 0);
}

#[test]
fn a_request_at_the_limit_gets_what_other_cpus_have_listed() {
    let pages = build(PageConfig { limit_frames: 1000, ..TINY }, &RingSizes::default());
    for slot in 1..4 {
        let extent = pages.alloc_exact(SlotIndex(slot), 250, Movable, Order::ZERO);
        pages.free_exact(SlotIndex(slot), extent.expect("room").pfn, 250);
    }
    assert!(pages.zones().budget().used() >= 500, "two lists have one extent each at least");
    assert!(pages.lists_any_extent());
    assert!(pages.alloc(SLOT, request(9, Movable)).is_some());
    assert!(pages.alloc(SLOT, request(8, Movable)).is_some());
    assert!(!pages.lists_any_extent());
    assert_eq!(pages.validate(), Ok(()));
}

#[test]
fn an_extent_that_nobody_wants_goes_back_at_the_second_look() {
    let pages = build(TINY, &RingSizes::default());
    let _held = [(); 4].map(|()| taken(&pages, 250));
    let [idle, busy] = [30, 50].map(|count| (taken(&pages, count), taken(&pages, 20)).0);
    pages.free_exact(SLOT, idle, 30);
    pages.free_exact(SLOT, busy, 50);
    pages.decay(SLOT);
    assert_eq!(pages.listed_frames(SLOT, HERE), 80);
    assert_eq!(pages.alloc_listed(SLOT, 50), Some(busy));
    pages.free_exact(SLOT, busy, 50);
    let drains = pages.pcp_counters(SLOT).drains;
    assert!(pages.decay(SLOT), "something was idle");
    assert_eq!(pages.listed_frames(SLOT, HERE), 50);
    assert_eq!(pages.pcp_counters(SLOT).drains, drains + 1);
    pages.decay(SLOT);
    assert_eq!(pages.listed_frames(SLOT, HERE), 0);
    assert_eq!(pages.validate(), Ok(()));
}

#[derive(Clone, Debug)]
enum Step {
    Put { at: u32, count: u32, most: u32 },
    Take { count: u32, align: u8 },
    TakeAt { at: u32, count: u32 },
    MakeRoom,
    Age,
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    let (at, count) = (|| 0u32..2 * PAGEBLOCK_FRAMES, || prop_oneof![1u32..40, 1u32..=256]);
    prop_oneof![
        12 => (at(), count(), 100u32..2000)
            .prop_map(|(at, count, most)| Step::Put { at, count, most }),
        8 => (count(), 0u8..6).prop_map(|(count, align)| Step::Take { count, align }),
        2 => (at(), count()).prop_map(|(at, count)| Step::TakeAt { at, count }),
        2 => Just(Step::MakeRoom),
        2 => Just(Step::Age),
        1 => Just(Step::Drain),
    ]
}

/// The frames on a list, as single frames.
#[derive(Default)]
struct Oracle(BTreeSet<u32>);

impl Oracle {
    fn has_all(&self, first: Pfn, count: u32) -> bool {
        (first.0..first.0 + count).all(|pfn| self.0.contains(&pfn))
    }

    fn has_any(&self, first: Pfn, count: u32) -> bool {
        self.0.range(first.0..first.0 + count).next().is_some()
    }

    fn lose(&mut self, first: Pfn, count: u32) {
        assert!(self.has_all(first, count), "{count} frames from {first:?} are on the list");
        self.0.retain(|pfn| !(first.0..first.0 + count).contains(pfn));
    }
}

fn run(list: &ExtentList, oracle: &mut Oracle, step: &Step) {
    match *step {
        Step::Put { at, count, most } => {
            let inside = at % PAGEBLOCK_FRAMES + count <= PAGEBLOCK_FRAMES;
            let (first, listed) = (Pfn(at), oracle.0.len() as u32);
            if !inside || oracle.has_any(first, count) {
                return;
            }
            if list.put(first, count, most) {
                assert!(listed == 0 || listed + count <= most, "{listed} + {count} of {most}");
                oracle.0.extend(at..at + count);
            } else {
                assert!(listed > 0, "an empty list takes anything");
            }
        }
        Step::Take { count, align } => {
            let align = Order::new(align);
            if let Some(first) = list.take(count, align) {
                assert!(first.is_aligned(align));
                oracle.lose(first, count);
            }
        }
        Step::TakeAt { at, count } => {
            let (is_there, overlaps) =
                (list.take_at(Pfn(at), count), list.overlaps(Pfn(at), count));
            if is_there {
                oracle.lose(Pfn(at), count);
            } else {
                assert_eq!(overlaps, oracle.has_any(Pfn(at), count));
            }
        }
        Step::MakeRoom => match list.make_room() {
            Some((first, count)) => oracle.lose(first, count),
            None => assert!(oracle.0.is_empty()),
        },
        Step::Age => {
            list.age().extents().iter().for_each(|(first, count)| oracle.lose(*first, *count))
        }
        Step::Drain => {
            list.drain().extents().iter().for_each(|(first, count)| oracle.lose(*first, *count));
            assert!(oracle.0.is_empty(), "nothing is left");
        }
    }
    assert_eq!(list.frames() as usize, oracle.0.len());
}

proptest! {
    #[test]
    fn a_list_has_what_was_put_there(steps in prop::collection::vec(step(), 1..120)) {
        let list = ExtentList::default();
        let mut oracle = Oracle::default();
        steps.iter().for_each(|step| run(&list, &mut oracle, step));
    }
}

#[test]
fn a_request_takes_the_shortest_extent_that_holds_it() {
    let list = ExtentList::default();
    for (at, count) in [(0, 40), (100, 20), (200, 30), (300, 25)] {
        assert!(list.put(Pfn(at), count, 1000));
    }
    assert_eq!(list.take(25, Order::ZERO), Some(Pfn(300)), "as long as it is");
    assert_eq!(list.take(25, Order::ZERO), Some(Pfn(200)), "the shortest");
    assert_eq!(list.take(25, Order::ZERO), Some(Pfn(0)));
    assert_eq!(list.take(25, Order::ZERO), None, "20, 5 and 15 are left");
    assert_eq!(list.frames(), 40);
}

#[test]
fn a_full_list_gives_its_shortest_extent() {
    let list = ExtentList::default();
    for at in 0..EXTENTS as u32 {
        assert!(list.put(Pfn(at * 32), 20 - at, 10_000));
    }
    assert!(!list.put(Pfn(2000), 9, 10_000), "there is no word for it");
    assert_eq!(list.make_room(), Some((Pfn((EXTENTS as u32 - 1) * 32), 21 - EXTENTS as u32)));
    assert_eq!(list.make_room(), Some((Pfn(0), 20)), "the longest, while there is a word");
}

/// Threads that share slots exchange extents; if the slots are several, they have shelves. Each
/// frame belongs to one thread at a time.
fn exchange(rounds: u32, slots: u32) {
    let pages = build(PageConfig { reserve_bytes: 256 << 20, ..TINY }, &RingSizes::default());
    if slots > 1 {
        pages.store.shelves.open_more();
    }
    let start = Barrier::new(3);
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let (pages, start) = (&pages, &start);
            scope.spawn(move || {
                start.wait();
                let slot = SlotIndex(thread % slots);
                let mut mine: Vec<(Pfn, u32)> = Vec::new();
                let mut random = 0x9e37_79b9_u32.wrapping_mul(thread + 1);
                for _ in 0..rounds {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let count = 9 + (random >> 24) % 40;
                    if mine.len() < 20 && random >> 20 & 1 == 0 {
                        let pfn = pages.alloc_listed(slot, count).or_else(|| {
                            let page = pages.alloc_exact(slot, count, Movable, Order::ZERO);
                            page.map(|page| page.pfn)
                        });
                        let pfn = pfn.expect("256 MiB do");
                        for offset in 0..count {
                            first_word(pages, pfn.plus(offset), u64::from(thread) + 1);
                        }
                        mine.push((pfn, count));
                    } else if !mine.is_empty() {
                        let (pfn, count) = mine.swap_remove(random as usize % mine.len());
                        for offset in 0..count {
                            let word = first_word(pages, pfn.plus(offset), 0);
                            assert_eq!(word, u64::from(thread) + 1, "somebody wrote to my frame");
                        }
                        if !pages.free_listed(slot, pfn, count) {
                            pages.free_exact(slot, pfn, count);
                        }
                    }
                    match random >> 10 & 0xff {
                        0 => pages.store.drain_extents_of(slot),
                        1 | 2 => drop(pages.decay(slot)),
                        3 => {
                            pages.zones().purge(HERE, Order::ZERO, usize::MAX);
                        }
                        _ => {}
                    }
                }
                mine.iter().for_each(|(pfn, count)| pages.free_exact(slot, *pfn, *count));
            });
        }
    });
    assert_eq!(pages.validate(), Ok(()));
    pages.drain_all();
    assert_eq!(pages.validate(), Ok(()));
    assert_eq!(pages.zones().budget().used(), 0, "all came back");
}

#[test]
fn threads_share_a_list() {
    exchange(if cfg!(miri) { 100 } else { 20_000 }, 1);
}

#[test]
fn threads_share_shelves() {
    exchange(if cfg!(miri) { 100 } else { 20_000 }, 3);
}
