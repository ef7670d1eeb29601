//! `single`: one lock per node, as in Linux 4.15.
//!
//! Pages are added and removed one by one in a critical section. The drain of an add batch holds a
//! node's lock while consecutive pages are of that node (`pagevec_lru_move_fn`). A release does the
//! same, but drops the lock at every 32nd page, so that other tasks do not wait for a long list
//! (`release_pages`, `SWAP_CLUSTER_MAX`).

use quarry_cache::lru::{
    DescriptorTable, ListKind, Lists, LruCounters, LruPolicy, PageNo, SWAP_CLUSTER_MAX, Setup,
    Sizes, State, Tail, Tally, Waiting, add_to, scan,
};
use quarry_mm::frame::{List, NodeId, OsArray};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{Chosen, CountedLock, Guard};
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU64, Effort, Ordering::Relaxed, effort};

type Heads = [List<PageNo>; 2];

/// The lists of one node. Equation: `added - removed = pages on the list`, for each list.
#[repr(align(128))]
struct NodeLists {
    heads: CountedLock<Heads, Chosen>,
    added: Tally,
    removed: Tally,
    isolated: AtomicU64,
}

/// The policy: one lock for each node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Single;

impl LruPolicy for Single {
    type Lists = SingleLists;

    fn name(&self) -> &'static str {
        "single"
    }

    fn build(&self, setup: Setup) -> OsResult<SingleLists> {
        let nodes = OsArray::filled(setup.os, setup.nodes, |_| NodeLists {
            heads: CountedLock::counting([List::new(), List::new()], Chosen(setup.counts)),
            added: Tally::default(),
            removed: Tally::default(),
            isolated: AtomicU64::new(0),
        })?;
        Ok(SingleLists { nodes })
    }
}

/// The lists of all nodes.
pub struct SingleLists {
    nodes: OsArray<NodeLists>,
}

/// The lock of a node, kept while consecutive pages belong to that node.
struct Held<'a> {
    node: NodeId,
    lists: &'a NodeLists,
    heads: Guard<'a, Heads, Chosen>,
}

impl Held<'_> {
    fn add(&mut self, table: &DescriptorTable, page: PageNo) {
        effort::spend(Effort::LruPage, 1);
        let descriptor = table.at(page);
        let list = ListKind::of(descriptor.state.load());
        self.heads[list.index()].push_front(table, page);
        descriptor.state.set(State::LRU);
        self.lists.added.count(list, 1);
    }

    fn take(&mut self, table: &DescriptorTable, page: PageNo) {
        effort::spend(Effort::LruPage, 1);
        let descriptor = table.at(page);
        let list = ListKind::of(descriptor.state.clear(State::LRU));
        self.heads[list.index()].remove(table, page);
        self.lists.removed.count(list, 1);
    }
}

struct HeldTail<'a> {
    held: Held<'a>,
    table: &'a DescriptorTable,
    from: ListKind,
}

impl Tail for HeldTail<'_> {
    fn last(&mut self) -> Option<PageNo> {
        self.held.heads[self.from.index()].last()
    }

    fn take(&mut self, page: PageNo) {
        self.held.take(self.table, page);
    }

    fn pass(&mut self, page: PageNo) {
        let list = &mut self.held.heads[self.from.index()];
        list.remove(self.table, page);
        list.push_front(self.table, page);
    }
}

impl SingleLists {
    fn all(&self) -> impl Iterator<Item = &NodeLists> {
        (0..self.nodes.len()).map(|node| self.nodes.at(node))
    }

    fn hold(&self, node: NodeId) -> Held<'_> {
        let lists = self.nodes.at(node.0 as usize);
        Held { node, lists, heads: lists.heads.lock() }
    }

    /// Returns the lock of `node`: `held`, or a new one after releasing `held`.
    fn relock<'a, 'b>(&'a self, held: &'b mut Option<Held<'a>>, node: NodeId) -> &'b mut Held<'a> {
        if held.as_ref().is_some_and(|held| held.node != node) {
            *held = None;
        }
        held.get_or_insert_with(|| self.hold(node))
    }
}

impl Lists for SingleLists {
    fn insert(&self, table: &DescriptorTable, _slot: SlotIndex, pages: &[PageNo]) {
        let mut held = None;
        for &page in pages {
            self.relock(&mut held, table.at(page).node()).add(table, page);
        }
    }

    fn remove(&self, table: &DescriptorTable, pages: &[PageNo]) {
        let (mut held, mut since) = (None, 0);
        for &page in pages {
            since += 1;
            if since == SWAP_CLUSTER_MAX {
                held = None;
            }
            let descriptor = table.at(page);
            if !descriptor.state.load().has(State::LRU) {
                continue;
            }
            let node = descriptor.node();
            if held.as_ref().is_none_or(|held: &Held<'_>| held.node != node) {
                since = 0;
            }
            self.relock(&mut held, node).take(table, page);
        }
    }

    fn isolate(
        &self,
        table: &DescriptorTable,
        (node, from): (NodeId, ListKind),
        waiting: Waiting,
        out: &mut [PageNo],
    ) -> usize {
        let lists = self.nodes.at(node.0 as usize);
        let Some(heads) = waiting.lock(&lists.heads) else { return 0 };
        let mut tail = HeldTail { held: Held { node, lists, heads }, table, from };
        let taken = scan(table, &mut tail, out);
        add_to(&lists.isolated, taken as u64);
        taken
    }

    fn sizes(&self, node: NodeId) -> Sizes {
        let lists = self.nodes.at(node.0 as usize);
        let size = |list| lists.added.of(list).saturating_sub(lists.removed.of(list));
        Sizes { inactive: size(ListKind::Inactive), active: size(ListKind::Active) }
    }

    fn counters(&self) -> LruCounters {
        let mut counters = LruCounters::default();
        for lists in self.all() {
            counters.sections += lists.heads.stats().acquisitions;
            counters.added += lists.added.both();
            counters.removed += lists.removed.both();
            counters.isolated += lists.isolated.load(Relaxed);
        }
        counters
    }

    fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.all().for_each(|lists| visit("node->lru_lock", &lists.heads));
    }

    fn validate(&self, table: &DescriptorTable) -> Result<(), Broken> {
        for (node, lists) in self.all().enumerate() {
            let heads = lists.heads.lock();
            for list in ListKind::ALL {
                let mut pages = 0u64;
                heads[list.index()].validate(table, |page| {
                    pages += 1;
                    let descriptor = table.at(page);
                    let (state, check) = (descriptor.state.load(), Check::of("lru").at(page.0));
                    check.that(state.has(State::LRU), "a page on a list has LRU")?;
                    check.that(ListKind::of(state) == list, "ACTIVE = on the active list")?;
                    check.equal(descriptor.node().0, node as u64, "node of a page = its list's")
                })?;
                let listed = lists.added.of(list) - lists.removed.of(list);
                Check::of("lru").equal(listed, pages, "added - removed = pages on the list")?;
            }
        }
        Ok(())
    }
}
