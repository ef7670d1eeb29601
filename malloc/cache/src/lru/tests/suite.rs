//! Compares a policy with double-ended queues: both must have the same pages in the same order. The
//! tests of other eras' policies include this file too, so it uses only items of its parent module.

use super::*;
use proptest::prelude::*;
use quarry_mm::frame::Links;
use std::collections::{BTreeMap, VecDeque};

const PAGES: u32 = 160;
const NODES: u8 = 3;
const SLOTS: usize = 2;

#[derive(Clone, Debug)]
pub(super) enum Op {
    /// A new page is added, active or inactive; the task that adds it keeps its pin if `pinned`.
    Add {
        slot: u32,
        active: bool,
        pinned: bool,
    },
    /// An index drops `count` pages from page `from` on, and releases those without pins together.
    Truncate {
        from: u32,
        count: u32,
    },
    /// A task gives up its pin.
    Unpin(u32),
    /// A scan takes pages from the tail.
    Isolate {
        node: u8,
        from: bool,
        most: usize,
    },
    /// The oldest scan puts its pages back. A bit for each page selects its list.
    PutBack {
        slot: u32,
        active: u64,
    },
    Drain(u32),
    DrainAll,
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let slot = 0..SLOTS as u32;
    prop_oneof![
        12 => (slot.clone(), any::<bool>(), prop::bool::weighted(0.5))
            .prop_map(|(slot, active, pinned)| Op::Add { slot, active, pinned }),
        2 => (0..PAGES, 1..40u32).prop_map(|(from, count)| Op::Truncate { from, count }),
        2 => (0..PAGES).prop_map(Op::Unpin),
        2 => (0..NODES, any::<bool>(), 0..40usize)
            .prop_map(|(node, from, most)| Op::Isolate { node, from, most }),
        2 => (slot.clone(), any::<u64>()).prop_map(|(slot, active)| Op::PutBack { slot, active }),
        1 => slot.prop_map(Op::Drain),
        1 => Just(Op::DrainAll),
    ]
}

/// The place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Batch,
    List,
    Scan,
}

/// The facts that the oracle knows of a page.
#[derive(Clone, Copy, Debug)]
struct Known {
    place: Place,
    live: bool,
    pinned: bool,
}

/// The naive LRU: queues of page numbers.
#[derive(Default)]
struct Oracle {
    pages: BTreeMap<u32, Known>,
    batches: [VecDeque<(u32, bool)>; SLOTS],
    lists: BTreeMap<(u8, bool), VecDeque<u32>>,
    scans: VecDeque<Vec<u32>>,
}

impl Oracle {
    fn node(page: u32) -> u8 {
        (page % u32::from(NODES)) as u8
    }

    /// Puts pages on lists; returns pages in no index and without pins.
    fn insert(&mut self, pages: impl IntoIterator<Item = (u32, bool)>) -> Vec<u32> {
        let mut dead = Vec::new();
        for (page, active) in pages {
            let known = self.pages.get_mut(&page).expect("it exists");
            if !known.live && !known.pinned {
                self.pages.remove(&page);
                dead.push(page);
                continue;
            }
            known.place = Place::List;
            self.lists.entry((Self::node(page), active)).or_default().push_front(page);
        }
        dead
    }

    fn drain(&mut self, slot: usize) -> Vec<u32> {
        let all: Vec<_> = self.batches[slot].drain(..).collect();
        self.insert(all)
    }

    fn add(&mut self, slot: usize, page: u32, active: bool, batch: usize) -> Vec<u32> {
        self.batches[slot].push_back((page, active));
        if self.batches[slot].len() < batch { Vec::new() } else { self.drain(slot) }
    }

    /// Takes pages in no index and without pins off their lists; returns those to be released.
    fn release(&mut self, pages: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut released = Vec::new();
        for page in pages {
            let known = self.pages[&page];
            if known.live || known.pinned || known.place != Place::List {
                continue;
            }
            self.lists.values_mut().for_each(|list| list.retain(|listed| *listed != page));
            self.pages.remove(&page);
            released.push(page);
        }
        released
    }
}

/// The LRU and the oracle, which get the same operations.
struct Both<P: LruPolicy> {
    set: LruSet<P>,
    table: DescriptorTable,
    oracle: Oracle,
    released: Vec<u32>,
}

impl<P: LruPolicy> Both<P> {
    fn new(options: LruOptions<P>) -> Self {
        let set = LruSet::build(fake_os(), options, SLOTS, NODES.into()).expect("the OS serves");
        Self { set, table: table(PAGES, NODES), oracle: Oracle::default(), released: Vec::new() }
    }

    /// Runs an operation that may release pages, and compares the released ones with `expected`.
    fn releasing(
        &mut self,
        work: impl FnOnce(&LruSet<P>, &DescriptorTable, &mut Released<'_>),
        mut expected: Vec<u32>,
    ) {
        let released = &mut self.released;
        work(&self.set, &self.table, &mut |page| released.push(page.0));
        released.sort_unstable();
        expected.sort_unstable();
        assert_eq!(*released, expected, "pages that are released");
        for page in released.drain(..) {
            free(&self.table, PageNo(page));
        }
    }

    fn add(&mut self, slot: u32, active: bool, pinned: bool) {
        let Some(page) = (0..PAGES).find(|page| !self.oracle.pages.contains_key(page)) else {
            return;
        };
        begin(&self.table, PageNo(page));
        let known = Known { place: Place::Batch, live: true, pinned: true };
        self.oracle.pages.insert(page, known);
        let batch = self.set.options().add_batch;
        let dead = self.oracle.add(slot as usize, page, active, batch);
        self.releasing(
            |set, table, released| {
                set.add(table, SlotIndex(slot), PageNo(page), active, released);
            },
            dead,
        );
        if !pinned {
            self.unpin(page);
        }
    }

    fn unpin(&mut self, page: u32) {
        let Some(known) = self.oracle.pages.get_mut(&page).filter(|known| known.pinned) else {
            return;
        };
        known.pinned = false;
        let is_last = self.table.at(PageNo(page)).state.unpin();
        let released = self.oracle.release([page]);
        assert_eq!(is_last, !released.is_empty(), "the last pin is that of the oracle");
        if is_last {
            self.set.remove(&self.table, &[PageNo(page)]);
            free(&self.table, PageNo(page));
        }
    }

    fn truncate(&mut self, from: u32, count: u32) {
        let pages: Vec<u32> = (from..PAGES.min(from + count))
            .filter(|page| self.oracle.pages.get(page).is_some_and(|known| known.live))
            .collect();
        let mut own = Vec::new();
        for &page in &pages {
            let state = &self.table.at(PageNo(page)).state;
            assert!(state.try_pin(State::LIVE).is_some(), "an index leads to it");
            state.clear(State::LIVE);
            if state.unpin() {
                own.push(PageNo(page));
            }
            self.oracle.pages.get_mut(&page).expect("known").live = false;
        }
        let released = self.oracle.release(pages);
        assert_eq!(own.iter().map(|page| page.0).collect::<Vec<_>>(), released);
        self.set.remove(&self.table, &own);
        own.iter().for_each(|page| free(&self.table, *page));
    }

    fn isolate(&mut self, node: u8, active: bool, most: usize) {
        let mut out = vec![PageNo(0); most];
        let kind = if active { ListKind::Active } else { ListKind::Inactive };
        let taken = self.set.isolate(&self.table, (NodeId(node), kind), Waiting::Waits, &mut out);
        let list = self.oracle.lists.entry((node, active)).or_default();
        let (mut expected, mut passed) = (Vec::new(), 0);
        for _ in 0..list.len() {
            if expected.len() == most || passed == 32 {
                break;
            }
            let page = list.pop_back().expect("as many as there were");
            let known = self.oracle.pages.get_mut(&page).expect("listed");
            if known.live {
                known.place = Place::Scan;
                expected.push(page);
            } else {
                list.push_front(page);
                passed += 1;
            }
        }
        let taken: Vec<u32> = out[..taken].iter().map(|page| page.0).collect();
        assert_eq!(taken, expected, "pages from the tail");
        self.oracle.scans.push_back(taken);
    }

    fn put_back(&mut self, slot: u32, active: u64) {
        let Some(pages) = self.oracle.scans.pop_front() else { return };
        let marked = pages.iter().enumerate().map(|(bit, page)| (*page, active >> bit & 1 == 1));
        let marked: Vec<_> = marked.collect();
        let back: Vec<_> = marked.iter().map(|(page, active)| (PageNo(*page), *active)).collect();
        let dead = self.oracle.insert(marked);
        self.releasing(
            |set, table, released| set.put_back(table, SlotIndex(slot), &back, released),
            dead,
        );
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Add { slot, active, pinned } => self.add(slot, active, pinned),
            Op::Truncate { from, count } => self.truncate(from, count),
            Op::Unpin(page) => self.unpin(page),
            Op::Isolate { node, from, most } => self.isolate(node, from, most),
            Op::PutBack { slot, active } => self.put_back(slot, active),
            Op::Drain(slot) => {
                let dead = self.oracle.drain(slot as usize);
                self.releasing(
                    |set, table, released| set.drain(table, SlotIndex(slot), released),
                    dead,
                );
            }
            Op::DrainAll => {
                let dead = (0..SLOTS).flat_map(|slot| self.oracle.drain(slot)).collect();
                self.releasing(LruSet::drain_all, dead);
            }
        }
        assert_eq!(self.set.validate(&self.table), Ok(()));
        for (node, active) in (0..NODES).flat_map(|node| [(node, false), (node, true)]) {
            let expected = self.oracle.lists.entry((node, active)).or_default();
            let listed = order(&self.table, node, active);
            assert_eq!(listed, expected.iter().copied().collect::<Vec<_>>());
            let sizes = self.set.sizes(NodeId(node));
            let size = if active { sizes.active } else { sizes.inactive };
            assert_eq!(size, listed.len() as u64);
        }
    }
}

/// The pages of a list from first to last, found by their links.
fn order(table: &DescriptorTable, node: u8, active: bool) -> Vec<u32> {
    let is_first = |page: &PageNo| {
        let descriptor = table.at(*page);
        let state = descriptor.state.load();
        let is_there = state.has(State::LRU) && state.has(State::ACTIVE) == active;
        is_there && descriptor.node() == NodeId(node) && table.previous(*page).get().is_none()
    };
    let mut at = (0..PAGES).map(PageNo).find(is_first);
    let mut pages = Vec::new();
    while let Some(page) = at {
        pages.push(page.0);
        at = table.next(page).get();
    }
    pages
}

/// Random options: the pages of a full add batch, whether locks count, and whether pages that die
/// in the batch are freed with it.
pub(super) fn sizes() -> impl Strategy<Value = (usize, bool, bool)> {
    (prop::sample::select(&[1, 3, 14, 31, 56][..]), any::<bool>(), any::<bool>())
}

pub(super) fn keeps_the_order<P: LruPolicy>(policy: P, sizes: (usize, bool, bool), ops: &[Op]) {
    let (add_batch, counts, frees_dead) = sizes;
    let mut both = Both::new(LruOptions { policy, add_batch, counts, frees_dead });
    ops.iter().for_each(|op| both.run(op));
}
