//! How many critical sections and sentinels each LRU policy costs, and which locks it has.

use super::*;
use std::collections::BTreeMap;

const BATCH: usize = 14;
const SLOT: SlotIndex = SlotIndex(0);

struct Bed {
    set: LruSet<Chosen>,
    table: DescriptorTable,
}

impl Bed {
    fn new(policy: Chosen, nodes: u8, counts: bool) -> Self {
        let options = LruOptions { policy, add_batch: BATCH, counts, frees_dead: true };
        let set = LruSet::build(fake_os(), options, 2, nodes.into()).expect("the OS serves");
        Self { set, table: table(512, nodes) }
    }

    /// Adds pages `0..pages` and moves them to the lists.
    fn add(&self, pages: u32) {
        for page in (0..pages).map(PageNo) {
            begin(&self.table, page);
            self.set.add(&self.table, SLOT, page, false, &mut |_| panic!("it lives"));
            assert!(!self.table.at(page).state.unpin());
        }
        self.set.drain(&self.table, SLOT, &mut |_| panic!("all of them live"));
    }

    /// Releases pages in one call.
    fn release(&self, pages: impl Iterator<Item = u32>) {
        let pages: Vec<_> = pages.map(PageNo).collect();
        for page in &pages {
            self.table.at(*page).state.clear(State::LIVE);
        }
        self.set.remove(&self.table, &pages);
        pages.iter().for_each(|page| free(&self.table, *page));
    }

    /// What `work` adds to the counters.
    fn cost(&self, work: impl FnOnce(&Self)) -> LruCounters {
        let before = self.set.counters();
        work(self);
        let after = self.set.counters();
        assert_eq!(self.set.validate(&self.table), Ok(()));
        LruCounters {
            sections: after.sections - before.sections,
            batch_sections: after.batch_sections - before.batch_sections,
            added: after.added - before.added,
            removed: after.removed - before.removed,
            isolated: after.isolated - before.isolated,
            dead_added: after.dead_added - before.dead_added,
            sentinels: after.sentinels - before.sentinels,
        }
    }
}

#[test]
fn an_add_batch_of_one_node_is_one_section() {
    for policy in LRU_POLICIES {
        let cost = Bed::new(policy.policy, 1, true).cost(|bed| bed.add(10 * BATCH as u32 + 1));
        assert_eq!((cost.sections, cost.added), (11, 141), "{}", policy.name);
    }
}

#[test]
fn only_splice_sorts_an_add_batch_by_nodes() {
    let sections = |policy| Bed::new(policy, 2, true).cost(|bed| bed.add(BATCH as u32)).sections;
    assert_eq!(sections(Chosen::Single), 14);
    assert_eq!(sections(Chosen::Batched), 14);
    assert_eq!(sections(Chosen::Splice), 2);
}

#[test]
fn a_release_under_one_lock_lets_it_go_at_every_32nd_page() {
    let bed = Bed::new(Chosen::Single, 1, true);
    bed.add(512);
    for (pages, sections) in [(1, 1), (32, 1), (33, 2), (64, 2), (320, 10)] {
        let first = 512 - bed.set.sizes(NodeId(0)).inactive as u32;
        let cost = bed.cost(|bed| bed.release(first..first + pages));
        let expected = LruCounters { sections, removed: pages.into(), ..LruCounters::default() };
        assert_eq!(cost, expected);
    }
}

/// Ten batches are released together. Only the two end pages of each batch need the LRU lock, and
/// the release takes this lock once for all ten batches.
#[test]
fn a_release_meets_two_sentinels_in_each_batch() {
    for policy in [Chosen::Batched, Chosen::Splice] {
        let bed = Bed::new(policy, 1, true);
        bed.add(10 * BATCH as u32);
        let cost = bed.cost(|bed| bed.release(0..10 * BATCH as u32));
        assert_eq!((cost.removed, cost.sentinels, cost.sections), (140, 20, 1));
        // One section for the inner pages of each batch, and one for each sentinel.
        assert_eq!(cost.batch_sections, 10 + 20);
    }
}

/// In a batch that was left open, every page is a sentinel.
#[test]
fn an_open_batch_needs_the_lru_lock_for_each_page() {
    let bed = Bed::new(Chosen::Batched, 1, true);
    bed.add(BATCH as u32 - 1);
    assert_eq!(bed.cost(|bed| bed.release(0..13)).sentinels, 13);
    let bed = Bed::new(Chosen::Splice, 1, true);
    bed.add(BATCH as u32 - 1);
    assert_eq!(bed.cost(|bed| bed.release(0..13)).sentinels, 2);
}

/// The 32 pages at the tail of the list belong to three batches.
#[test]
fn a_scan_takes_the_lru_lock_and_one_batch_lock_after_the_other() {
    for (policy, batch_sections) in [(Chosen::Single, 0), (Chosen::Batched, 3), (Chosen::Splice, 3)]
    {
        let bed = Bed::new(policy, 1, true);
        bed.add(40);
        let mut out = [PageNo(0); 32];
        let before = bed.set.counters();
        let from = (NodeId(0), ListKind::Inactive);
        let taken = bed.set.isolate(&bed.table, from, Waiting::ForOthers, &mut out);
        let after = bed.set.counters();
        assert_eq!((taken, after.isolated, after.sentinels), (32, 32, 0));
        assert_eq!(after.sections - before.sections, 1);
        assert_eq!(after.batch_sections - before.batch_sections, batch_sections);
    }
}

/// A page that is truncated while it waits in an add batch is on no list yet; the drain of the
/// batch then releases the page.
#[test]
fn a_page_that_dies_in_an_add_batch_skips_the_lists() {
    for policy in LRU_POLICIES {
        let bed = Bed::new(policy.policy, 1, true);
        begin(&bed.table, PageNo(7));
        bed.set.add(&bed.table, SLOT, PageNo(7), true, &mut |_| panic!("it lives"));
        let state = &bed.table.at(PageNo(7)).state;
        state.clear(State::LIVE);
        assert!(!state.unpin(), "the batch has a pin");
        let mut released = Vec::new();
        let cost = bed.cost(|bed| {
            bed.set.drain(&bed.table, SLOT, &mut |page| released.push(page));
            free(&bed.table, PageNo(7));
        });
        assert_eq!((released, cost.added, cost.removed), (vec![PageNo(7)], 0, 0));
    }
}

#[test]
fn every_lock_is_visited_and_counts_if_it_is_asked_to() {
    for (policy, batch_locks) in
        [(Chosen::Single, None), (Chosen::Batched, Some(64)), (Chosen::Splice, Some(64))]
    {
        for counts in [true, false] {
            let bed = Bed::new(policy, 2, counts);
            bed.add(100);
            let mut names = BTreeMap::new();
            bed.set.visit_locks(&mut |name, lock| {
                assert!(lock.is_free());
                assert_eq!(lock.stats().is_some(), counts);
                *names.entry(name).or_insert(0) += 1;
            });
            assert_eq!(names.remove("node->lru_lock"), Some(2));
            assert_eq!(names.remove("node->lru_batch"), batch_locks);
            assert_eq!(names.remove("cpu->lru_add"), Some(2));
            assert_eq!(names, BTreeMap::new());
            let counters = bed.set.counters();
            assert_eq!((counters.sections > 0, counters.added), (counts, 100));
        }
    }
}
