//! `batched`: neighbours on a list form batches, and pages inside a batch leave without the LRU
//! lock (D. Jordan, "lru_lock scalability", January 2018; never merged).
//!
//! Each node has 32 *batch locks*. A page on a list has a *tag*, the number of the batch lock that
//! guards it, and a *role*. Pages that are added one by one form the *open* batch at the front of
//! the list; when it is full it is *closed*, and its pages but the first and the last become
//! *inner* pages. All others are *sentinels*.
//!
//! ```text
//! front                                                                    tail
//!   o o o | E i i i i i E | E i i i i E | ..      o open, E end: sentinels; i inner
//!   tag 7 |    tag 19     |   tag 4     |
//! ```
//!
//! Who may change what:
//!
//! | change | locks |
//! |---|---|
//! | an inner page leaves | the batch lock of its tag |
//! | a sentinel leaves; its neighbours become sentinels | the LRU lock, and the batch lock |
//! | pages come to the front | the LRU lock |
//! | the open batch is closed | the LRU lock, and its batch lock |
//! | a scan | the LRU lock, and all batch locks |
//!
//! Equations, with the ends of the list as sentinels of no batch: the neighbours of an inner page
//! have its tag; a sentinel has a sentinel beside it; the first `open` pages of a list, and no
//! others, have the role `OPEN`; `added - removed = pages on the list`.
//!
//! So the neighbours of an inner page, whose links change when it leaves, are guarded by its own
//! batch lock: an inner one by that lock alone, a sentinel by that lock among others.
//!
//! Locks are taken in this order: the LRU lock, batch locks by number.

use super::page::{Descriptor, DescriptorTable, PageNo};
use super::policy::{
    ListKind, Lists, LruCounters, MOST_PASSED, SWAP_CLUSTER_MAX, Setup, Sizes, Tally, Waiting,
    add_to,
};
use super::state::State;
use crate::frame::{Links, List, NodeId, OsArray};
use core::array;
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{Chosen, CountedLock, Guard};
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Batch locks of a node (`NUM_LRU_BATCH_LOCKS`).
pub(super) const BATCH_LOCKS: usize = if cfg!(quarry_model) { 2 } else { 32 };

/// Pages of one release that are looked at in two passes: as many as a gathering unmap hands over
/// at most.
const RELEASE: usize = 512;

/// A page inside a closed batch.
pub(super) const INNER: u8 = 0;
/// A sentinel of a closed batch: one of its ends, or a page that had a sentinel beside it when
/// that left.
pub(super) const END: u8 = 1;
/// A sentinel of the open batch.
const OPEN: u8 = 2;

/// A batch lock, and what is counted under it, on cache lines of their own.
#[repr(align(128))]
struct BatchLock {
    lock: CountedLock<(), Chosen>,
    removed: Tally,
    sentinels: AtomicU64,
}

/// Chooses tags at random, each another than the last, so that tasks that release neighbouring
/// batches do not meet at one lock. A linear congruential generator (D. Knuth, H. Lewis).
#[derive(Clone, Copy)]
pub(super) struct Tags {
    seed: u32,
    tag: usize,
}

impl Tags {
    pub(super) fn from(seed: u32) -> Self {
        Self { seed, tag: seed as usize % BATCH_LOCKS }
    }

    /// What the rest of the sequence begins with.
    pub(super) fn seed(self) -> u32 {
        self.seed
    }

    /// The next tag.
    pub(super) fn choose(&mut self) -> usize {
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let step = 1 + (self.seed >> 16) as usize % (BATCH_LOCKS - 1);
        self.tag = (self.tag + step) % BATCH_LOCKS;
        self.tag
    }
}

/// One list, and the state of its open batch.
struct Head {
    pages: List<PageNo>,
    /// Tags of its batches; the last one chosen is that of the open batch.
    tags: Tags,
    /// Pages of the open batch.
    open: usize,
}

type Heads = [Head; 2];

/// The lists of one node.
#[repr(align(128))]
pub(super) struct NodeLists {
    heads: CountedLock<Heads, Chosen>,
    added: Tally,
    isolated: AtomicU64,
    batches: [BatchLock; BATCH_LOCKS],
}

/// The lock of a node, held.
pub(super) struct Locked<'a> {
    node: NodeId,
    lists: &'a NodeLists,
    heads: Guard<'a, Heads, Chosen>,
}

/// A batch lock, held.
struct Batch<'a> {
    node: NodeId,
    tag: usize,
    lock: &'a BatchLock,
    _held: Guard<'a, (), Chosen>,
}

/// The lists of all nodes.
pub(super) struct Batched {
    nodes: OsArray<NodeLists>,
    batch: usize,
}

fn tag(descriptor: &Descriptor) -> usize {
    descriptor.tag.load(Relaxed) as usize
}

fn role(descriptor: &Descriptor) -> u8 {
    descriptor.sentinel.load(Relaxed)
}

/// Gives a page its place in a batch.
pub(super) fn assign(descriptor: &Descriptor, tag: usize, role: u8) {
    descriptor.tag.store(tag as u32, Relaxed);
    descriptor.sentinel.store(role, Relaxed);
}

impl NodeLists {
    fn new(node: usize, counts: bool) -> Self {
        let head = |list: u32| Head {
            pages: List::new(),
            tags: Tags::from(2 * node as u32 + list),
            open: 0,
        };
        Self {
            heads: CountedLock::counting([head(0), head(1)], Chosen(counts)),
            added: Tally::default(),
            isolated: AtomicU64::new(0),
            batches: array::from_fn(|_| BatchLock {
                lock: CountedLock::counting((), Chosen(counts)),
                removed: Tally::default(),
                sentinels: AtomicU64::new(0),
            }),
        }
    }

    fn size(&self, list: ListKind) -> u64 {
        let removed: u64 = self.batches.iter().map(|batch| batch.removed.of(list)).sum();
        self.added.of(list).saturating_sub(removed)
    }

    fn hold(&self, node: NodeId) -> Locked<'_> {
        Locked { node, lists: self, heads: self.heads.lock() }
    }

    fn hold_batch(&self, node: NodeId, tag: usize) -> Batch<'_> {
        let lock = &self.batches[tag];
        Batch { node, tag, lock, _held: lock.lock.lock() }
    }

    /// Holds all locks. `None` where one is held and the caller does not wait.
    fn hold_all(
        &self,
        node: NodeId,
        waiting: Waiting,
    ) -> Option<(Locked<'_>, [Guard<'_, (), Chosen>; BATCH_LOCKS])> {
        let heads = match waiting {
            Waiting::Waits => self.heads.lock(),
            Waiting::Tries => self.heads.try_lock()?,
        };
        let mut busy = false;
        let batches = array::from_fn(|tag| match waiting {
            Waiting::Waits => Some(self.batches[tag].lock.lock()),
            Waiting::Tries if busy => None,
            Waiting::Tries => {
                let held = self.batches[tag].lock.try_lock();
                busy |= held.is_none();
                held
            }
        });
        if busy {
            return None;
        }
        let batches = batches.map(|held| held.expect("none is busy"));
        Some((Locked { node, lists: self, heads }, batches))
    }
}

impl Locked<'_> {
    /// Puts a page at the front of its list. Returns whether the open batch of the list is full.
    fn push(&mut self, table: &DescriptorTable, page: PageNo, batch: usize) -> bool {
        let descriptor = table.at(page);
        let list = ListKind::of(descriptor.state.load());
        let head = &mut self.heads[list.index()];
        assign(descriptor, head.tags.tag, OPEN);
        head.pages.push_front(table, page);
        head.open += 1;
        descriptor.state.set(State::LRU);
        head.open >= batch
    }

    /// Adds one page.
    pub(super) fn add(&mut self, table: &DescriptorTable, page: PageNo, batch: usize) {
        let list = ListKind::of(table.at(page).state.load());
        if self.push(table, page, batch) {
            self.close(table, list);
        }
        self.lists.added.count(list, 1);
    }

    /// Closes the open batch of a list, if it has pages.
    fn close(&mut self, table: &DescriptorTable, list: ListKind) {
        let head = &self.heads[list.index()];
        match head.open {
            0 => {}
            // All of them stay sentinels, which need the LRU lock.
            1 | 2 => self.close_held(table, list),
            _ => {
                let _batch = self.lists.batches[head.tags.tag].lock.lock();
                self.close_held(table, list);
            }
        }
    }

    /// As [`close`](Self::close), with the batch lock of an open batch of three pages or more held.
    fn close_held(&mut self, table: &DescriptorTable, list: ListKind) {
        let head = &mut self.heads[list.index()];
        let mut at = head.pages.head();
        for number in 1..=head.open {
            let page = at.get().expect("the open batch has so many pages");
            let is_end = number == 1 || number == head.open;
            table.at(page).sentinel.store(if is_end { END } else { INNER }, Relaxed);
            at = table.next(page);
        }
        head.open = 0;
        head.tags.choose();
    }

    /// Unlinks a page, whose batch lock is held as well, from its list.
    fn unlink(&mut self, table: &DescriptorTable, page: PageNo, list: ListKind) {
        let (head, role) = (&mut self.heads[list.index()], role(table.at(page)));
        if role != INNER {
            let (next, previous) = table.both(page);
            for beside in [next.get(), previous.get()].into_iter().flatten() {
                let beside = &table.at(beside).sentinel;
                if beside.load(Relaxed) == INNER {
                    beside.store(END, Relaxed);
                }
            }
        }
        if role == OPEN {
            head.open -= 1;
        }
        head.pages.remove(table, page);
    }

    /// Puts a closed batch of `pages` pages, made outside of the lock, in front of a list.
    pub(super) fn splice(
        &mut self,
        table: &DescriptorTable,
        list: ListKind,
        batch: List<PageNo>,
        pages: usize,
    ) {
        self.close(table, list);
        self.heads[list.index()].pages.prepend(table, batch);
        self.lists.added.count(list, pages);
    }
}

impl Batch<'_> {
    /// Clears `LRU` of a page that is being unlinked, and counts it. Returns its list.
    fn unmark(&self, descriptor: &Descriptor) -> ListKind {
        let list = ListKind::of(descriptor.state.clear(State::LRU));
        self.lock.removed.count(list, 1);
        list
    }
}

impl Batched {
    /// Empty lists.
    ///
    /// # Errors
    /// The error of the OS.
    pub(super) fn build(setup: Setup) -> OsResult<Self> {
        let nodes =
            OsArray::filled(setup.os, setup.nodes, |node| NodeLists::new(node, setup.counts))?;
        Ok(Self { nodes, batch: setup.batch })
    }

    fn all(&self) -> impl Iterator<Item = &NodeLists> {
        (0..self.nodes.len()).map(|node| self.nodes.at(node))
    }

    fn of(&self, node: NodeId) -> &NodeLists {
        self.nodes.at(node.0 as usize)
    }

    /// The LRU lock of `node`: `held`, or another after it has been released.
    pub(super) fn relock<'a, 'b>(
        &'a self,
        held: &'b mut Option<Locked<'a>>,
        node: NodeId,
    ) -> &'b mut Locked<'a> {
        if held.as_ref().is_some_and(|held| held.node != node) {
            *held = None;
        }
        held.get_or_insert_with(|| self.of(node).hold(node))
    }

    /// The batch lock of a page that is being released: `held`, or another after it has been
    /// released. A scan may give the page another tag before the lock is held.
    fn relock_batch<'a, 'b>(
        &'a self,
        held: &'b mut Option<Batch<'a>>,
        descriptor: &Descriptor,
    ) -> &'b mut Batch<'a> {
        let node = descriptor.node();
        loop {
            let tag = tag(descriptor);
            if held.as_ref().is_some_and(|held| (held.node, held.tag) != (node, tag)) {
                *held = None;
            }
            held.get_or_insert_with(|| self.of(node).hold_batch(node, tag));
            if self::tag(descriptor) == tag {
                return held.as_mut().expect("just taken");
            }
        }
    }

    /// Takes inner pages off under their batch locks. Returns which pages were sentinels.
    fn release_inner(&self, table: &DescriptorTable, pages: &[PageNo]) -> [u64; RELEASE / 64] {
        let mut sentinels = [0; RELEASE / 64];
        let mut held = None;
        for (number, &page) in pages.iter().enumerate() {
            let descriptor = table.at(page);
            if !descriptor.state.load().has(State::LRU) {
                continue;
            }
            // A sentinel may become an inner page at any time; the second pass takes both.
            let is_inner = role(descriptor) == INNER && {
                let batch = self.relock_batch(&mut held, descriptor);
                let is_inner = role(descriptor) == INNER;
                if is_inner {
                    unlink_inner(table, page);
                    batch.unmark(descriptor);
                }
                is_inner
            };
            if !is_inner {
                sentinels[number / 64] |= 1 << (number % 64);
            }
        }
        sentinels
    }

    /// Takes the pages off that `sentinels` names, under the LRU lock and their batch locks.
    fn release_sentinels(
        &self,
        table: &DescriptorTable,
        pages: &[PageNo],
        sentinels: &[u64; RELEASE / 64],
    ) {
        let (mut held, mut since) = (None, 0);
        for (number, &page) in pages.iter().enumerate() {
            if sentinels[number / 64] >> (number % 64) & 1 == 0 {
                continue;
            }
            if since == SWAP_CLUSTER_MAX {
                (held, since) = (None, 0);
            }
            let descriptor = table.at(page);
            let locked = self.relock(&mut held, descriptor.node());
            // No scan gives it another tag: that needs the LRU lock.
            let batch = locked.lists.hold_batch(locked.node, tag(descriptor));
            let list = batch.unmark(descriptor);
            if role(descriptor) != INNER {
                add_to(&batch.lock.sentinels, 1);
            }
            locked.unlink(table, page, list);
            since += 1;
        }
    }
}

/// Unlinks an inner page, whose batch lock is held: its neighbours are of its batch.
fn unlink_inner(table: &DescriptorTable, page: PageNo) {
    let (next, previous) = table.both(page);
    let beside = (next.get(), previous.get());
    let (Some(behind), Some(before)) = beside else {
        unreachable!("an inner page has a page on either side");
    };
    table.set_previous(behind, previous);
    table.set_next(before, next);
}

impl Lists for Batched {
    fn insert(&self, table: &DescriptorTable, _slot: SlotIndex, pages: &[PageNo]) {
        let mut held = None;
        for &page in pages {
            self.relock(&mut held, table.at(page).node()).add(table, page, self.batch);
        }
    }

    fn remove(&self, table: &DescriptorTable, pages: &[PageNo]) {
        for some in pages.chunks(RELEASE) {
            let sentinels = self.release_inner(table, some);
            if sentinels != [0; RELEASE / 64] {
                self.release_sentinels(table, some, &sentinels);
            }
        }
    }

    fn isolate(
        &self,
        table: &DescriptorTable,
        (node, from): (NodeId, ListKind),
        waiting: Waiting,
        out: &mut [PageNo],
    ) -> Option<usize> {
        let lists = self.of(node);
        let (mut locked, _batches) = lists.hold_all(node, waiting)?;
        let (mut taken, mut passed) = (0, 0);
        let mut at = locked.heads[from.index()].pages.last();
        while let Some(page) = at {
            if taken == out.len() || passed == MOST_PASSED {
                break;
            }
            let descriptor = table.at(page);
            at = table.previous(page).get();
            if descriptor.state.try_pin_unused() {
                descriptor.state.clear(State::LRU);
                lists.batches[tag(descriptor)].removed.count(from, 1);
                locked.unlink(table, page, from);
                out[taken] = page;
                taken += 1;
            } else {
                locked.unlink(table, page, from);
                if locked.push(table, page, self.batch) {
                    locked.close_held(table, from);
                }
                passed += 1;
            }
        }
        add_to(&lists.isolated, taken as u64);
        Some(taken)
    }

    fn sizes(&self, node: NodeId) -> Sizes {
        let size = |list| self.of(node).size(list);
        Sizes { inactive: size(ListKind::Inactive), active: size(ListKind::Active) }
    }

    fn counters(&self) -> LruCounters {
        let mut counters = LruCounters::default();
        for lists in self.all() {
            counters.sections += lists.heads.stats().acquisitions;
            counters.added += lists.added.both();
            counters.isolated += lists.isolated.load(Relaxed);
            for batch in &lists.batches {
                counters.batch_sections += batch.lock.stats().acquisitions;
                counters.removed += batch.removed.both();
                counters.sentinels += batch.sentinels.load(Relaxed);
            }
        }
        counters
    }

    fn visit_locks(&self, visit: &mut Visit<'_>) {
        for lists in self.all() {
            visit("node->lru_lock", &lists.heads);
            lists.batches.iter().for_each(|batch| visit("node->lru_batch", &batch.lock));
        }
    }

    fn validate(&self, table: &DescriptorTable) -> Result<(), Broken> {
        for (node, lists) in self.all().enumerate() {
            let node = NodeId(node as u8);
            let all = lists.hold_all(node, Waiting::Waits);
            let (locked, _batches) = all.expect("it waits");
            for list in ListKind::ALL {
                let head = &locked.heads[list.index()];
                let mut pages = 0;
                head.pages.validate(table, |page| {
                    pages += 1;
                    check_page(table, page, (node, list))?;
                    let check = Check::of("lru").at(page.0);
                    let is_open = role(table.at(page)) == OPEN;
                    check.that(is_open == (pages <= head.open), "OPEN = in the open batch")
                })?;
                Check::of("lru").that(head.open <= pages, "the open batch is on the list")?;
                let listed = lists.size(list);
                Check::of("lru").equal(listed, pages as u64, "added - removed = pages listed")?;
            }
        }
        Ok(())
    }
}

/// Checks one page of a list, and its place between its neighbours.
fn check_page(
    table: &DescriptorTable,
    page: PageNo,
    (node, list): (NodeId, ListKind),
) -> Result<(), Broken> {
    let descriptor = table.at(page);
    let (state, check) = (descriptor.state.load(), Check::of("lru").at(page.0));
    check.that(state.has(State::LRU), "a page on a list has LRU")?;
    check.that(ListKind::of(state) == list, "ACTIVE = on the active list")?;
    check.equal(descriptor.node().0, node.0, "node of a page = its list's")?;
    check.that(tag(descriptor) < BATCH_LOCKS, "tag < batch locks")?;
    let (next, previous) = table.both(page);
    let beside = [next.get(), previous.get()].map(|beside| beside.map(|beside| table.at(beside)));
    if role(descriptor) == INNER {
        let are_inside =
            beside.iter().all(|beside| beside.is_some_and(|beside| tag(beside) == tag(descriptor)));
        check.that(are_inside, "neighbours of an inner page have its tag")
    } else {
        let has_sentinel =
            beside.iter().any(|beside| beside.is_none_or(|beside| role(beside) != INNER));
        check.that(has_sentinel, "a sentinel has a sentinel beside it")
    }
}
