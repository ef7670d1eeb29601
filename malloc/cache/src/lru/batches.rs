//! The LRU lists of one node, divided into batches, and the locks of the batches.
//!
//! Each node has 32 *batch locks*. A page on a list has a *tag*, the number of the batch lock that
//! guards it, and a *role*. Pages that are added one by one form the *open* batch at the front of
//! the list, and are *sentinels*. When the batch is full it is *closed*: its first and its last
//! page stay sentinels, and the pages between them become *inner* pages.
//!
//! ```text
//! front                                                                    tail
//!   o o o | E i i i i i E | E i i i i E | ..      o open, E end: sentinels; i inner
//!   tag 7 |    tag 19     |   tag 4     |
//! ```
//!
//! | change | locks |
//! |---|---|
//! | an inner page leaves | the batch lock of its tag |
//! | a sentinel leaves; its neighbours become sentinels | the LRU lock, and its batch lock |
//! | pages come to the front | the LRU lock |
//! | the open batch is closed | the LRU lock, and its batch lock |
//! | a scan takes the last page | the LRU lock, and its batch lock |
//! | nothing may change | the LRU lock, and all batch locks |
//!
//! Equations (each end of a list counts as a sentinel): the neighbours of an inner page have its
//! tag; a sentinel has a sentinel beside it; the first `open` pages of a list, and no other pages,
//! have the role `OPEN`; `added - removed = pages on the list`.
//!
//! So the batch lock of an inner page also guards its neighbours, whose links change when the page
//! leaves. Lock order: LRU lock, batch lock; two batch locks only under the LRU lock.

use super::page::{Descriptor, DescriptorTable, PageNo};
use super::policy::{ListKind, LruCounters, Sizes, Tail, Tally, Waiting, add_to, scan};
use super::state::State;
use core::array;
use quarry_mm::frame::{Links, List, NodeId};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{Chosen, CountedLock, Guard};
use quarry_sys::locks::Visit;
use quarry_sys::primitive::{AtomicU64, Effort, Ordering::Relaxed, effort};

/// Batch locks of a node (`NUM_LRU_BATCH_LOCKS`).
const BATCH_LOCKS: usize = if cfg!(quarry_model) { 2 } else { 32 };

/// A page inside a closed batch.
pub(super) const INNER: u8 = 0;
/// A sentinel of a closed batch: one of its ends, or a page next to which a sentinel has left.
pub(super) const END: u8 = 1;
/// A sentinel of the open batch.
const OPEN: u8 = 2;

/// A batch lock and the counts under it, on cache lines of their own.
#[repr(align(128))]
struct BatchLock {
    lock: CountedLock<(), Chosen>,
    removed: Tally,
    sentinels: AtomicU64,
}

/// Chooses a random tag for each batch, different from the last one, so that tasks that release
/// neighbouring batches use different locks. A linear congruential generator (D. Knuth, H. Lewis).
#[derive(Clone, Copy)]
pub(super) struct Tags {
    seed: u32,
    tag: usize,
}

impl Tags {
    pub(super) fn from(seed: u32) -> Self {
        Self { seed, tag: seed as usize % BATCH_LOCKS }
    }

    pub(super) fn seed(self) -> u32 {
        self.seed
    }

    pub(super) fn choose(&mut self) -> usize {
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let step = 1 + (self.seed >> 16) as usize % (BATCH_LOCKS - 1);
        self.tag = (self.tag + step) % BATCH_LOCKS;
        self.tag
    }
}

struct Head {
    pages: List<PageNo>,
    /// Chooses the tags of the list's batches; the open batch has the tag chosen last.
    tags: Tags,
    /// Number of pages in the open batch.
    open: usize,
}

type Heads = [Head; 2];

#[repr(align(128))]
pub(super) struct NodeLists {
    heads: CountedLock<Heads, Chosen>,
    added: Tally,
    isolated: AtomicU64,
    batches: [BatchLock; BATCH_LOCKS],
}

/// The LRU lock of a node, held.
pub(super) struct Locked<'a> {
    node: NodeId,
    lists: &'a NodeLists,
    heads: Guard<'a, Heads, Chosen>,
}

/// A batch lock, held.
pub(super) struct Batch<'a> {
    node: NodeId,
    tag: usize,
    lock: &'a BatchLock,
    _held: Guard<'a, (), Chosen>,
}

/// The tail of a list, with the batch lock of its last page. The scan needs no other: the page
/// before is a sentinel, which only holders of the LRU lock change, or has the same batch lock.
struct LockedTail<'a> {
    locked: Locked<'a>,
    held: Option<Batch<'a>>,
    table: &'a DescriptorTable,
    from: ListKind,
    waiting: Waiting,
    batch: usize,
}

impl Tail for LockedTail<'_> {
    fn last(&mut self) -> Option<PageNo> {
        let page = self.locked.heads[self.from.index()].pages.last()?;
        let (lists, node, tag) = (self.locked.lists, self.locked.node, tag(self.table.at(page)));
        if self.held.as_ref().is_none_or(|held| held.tag != tag) {
            self.held = None;
            let lock = &lists.batches[tag];
            let held = self.waiting.lock(&lock.lock);
            self.held = held.map(|held| Batch { node, tag, lock, _held: held });
        }
        self.held.is_some().then_some(page)
    }

    fn take(&mut self, page: PageNo) {
        let batch = self.held.as_ref().expect("held since it is the last page");
        batch.unmark(self.table.at(page));
        self.locked.unlink(self.table, page, self.from);
    }

    fn pass(&mut self, page: PageNo) {
        self.locked.unlink(self.table, page, self.from);
        let is_full = self.locked.push(self.table, page, self.batch);
        self.held = None;
        if is_full {
            self.locked.close(self.table, self.from);
        }
    }
}

/// The number of a page's batch lock.
pub(super) fn tag(descriptor: &Descriptor) -> usize {
    descriptor.tag.load(Relaxed) as usize
}

/// The role of a page: `INNER`, `END` or `OPEN`.
pub(super) fn role(descriptor: &Descriptor) -> u8 {
    descriptor.sentinel.load(Relaxed)
}

pub(super) fn assign(descriptor: &Descriptor, tag: usize, role: u8) {
    descriptor.tag.store(tag as u32, Relaxed);
    descriptor.sentinel.store(role, Relaxed);
}

impl NodeLists {
    pub(super) fn new(node: usize, counts: bool) -> Self {
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

    pub(super) fn sizes(&self) -> Sizes {
        Sizes { inactive: self.size(ListKind::Inactive), active: self.size(ListKind::Active) }
    }

    pub(super) fn count(&self, counters: &mut LruCounters) {
        counters.sections += self.heads.stats().acquisitions;
        counters.added += self.added.both();
        counters.isolated += self.isolated.load(Relaxed);
        for batch in &self.batches {
            counters.batch_sections += batch.lock.stats().acquisitions;
            counters.removed += batch.removed.both();
            counters.sentinels += batch.sentinels.load(Relaxed);
        }
    }

    pub(super) fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("node->lru_lock", &self.heads);
        self.batches.iter().for_each(|batch| visit("node->lru_batch", &batch.lock));
    }

    pub(super) fn hold(&self, node: NodeId) -> Locked<'_> {
        Locked { node, lists: self, heads: self.heads.lock() }
    }

    pub(super) fn hold_batch(&self, node: NodeId, tag: usize) -> Batch<'_> {
        let lock = &self.batches[tag];
        Batch { node, tag, lock, _held: lock.lock.lock() }
    }

    /// See [`Lists::isolate`](super::policy::Lists::isolate). `batch` is the size of a batch.
    pub(super) fn isolate(
        &self,
        table: &DescriptorTable,
        (node, from): (NodeId, ListKind),
        (waiting, batch): (Waiting, usize),
        out: &mut [PageNo],
    ) -> usize {
        let Some(heads) = waiting.lock(&self.heads) else { return 0 };
        let locked = Locked { node, lists: self, heads };
        let mut tail = LockedTail { locked, held: None, table, from, waiting, batch };
        let taken = scan(table, &mut tail, out);
        add_to(&self.isolated, taken as u64);
        taken
    }

    pub(super) fn validate(&self, table: &DescriptorTable, node: NodeId) -> Result<(), Broken> {
        let locked = self.hold(node);
        let _batches: [_; BATCH_LOCKS] = array::from_fn(|tag| self.hold_batch(node, tag));
        for list in ListKind::ALL {
            let (head, mut pages) = (&locked.heads[list.index()], 0);
            head.pages.validate(table, |page| {
                pages += 1;
                check_page(table, page, (node, list))?;
                let check = Check::of("lru").at(page.0);
                let is_open = role(table.at(page)) == OPEN;
                check.that(is_open == (pages <= head.open), "OPEN = in the open batch")
            })?;
            Check::of("lru").that(head.open <= pages, "the open batch is on the list")?;
            let (listed, pages) = (self.size(list), pages as u64);
            Check::of("lru").equal(listed, pages, "added - removed = pages on the list")?;
        }
        Ok(())
    }
}

impl Locked<'_> {
    pub(super) fn is_of(&self, node: NodeId) -> bool {
        self.node == node
    }

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

    pub(super) fn add(&mut self, table: &DescriptorTable, page: PageNo, batch: usize) {
        effort::spend(Effort::LruPage, 1);
        let list = ListKind::of(table.at(page).state.load());
        if self.push(table, page, batch) {
            self.close(table, list);
        }
        self.lists.added.count(list, 1);
    }

    fn close(&mut self, table: &DescriptorTable, list: ListKind) {
        let head = &mut self.heads[list.index()];
        if head.open == 0 {
            return;
        }
        // A batch of one or two pages has no inner page, and sentinels need only the LRU lock.
        let _batch = (head.open > 2).then(|| self.lists.hold_batch(self.node, head.tags.tag));
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

    /// Unlinks a page from its list. The caller also holds the page's batch lock.
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

    pub(super) fn release(&mut self, batch: &Batch<'_>, table: &DescriptorTable, page: PageNo) {
        effort::spend(Effort::LruPage, 1);
        let descriptor = table.at(page);
        let list = batch.unmark(descriptor);
        if role(descriptor) != INNER {
            add_to(&batch.lock.sentinels, 1);
        }
        self.unlink(table, page, list);
    }

    /// Puts a closed batch of `pages` pages, made outside of the lock, at the front of a list.
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
    pub(super) fn is(&self, node: NodeId, tag: usize) -> bool {
        (self.node, self.tag) == (node, tag)
    }

    pub(super) fn release(&self, table: &DescriptorTable, page: PageNo) {
        effort::spend(Effort::LruPage, 1);
        unlink_inner(table, page);
        self.unmark(table.at(page));
    }

    /// Clears `LRU` of a page that is being unlinked, and counts the removal. Returns its list.
    fn unmark(&self, descriptor: &Descriptor) -> ListKind {
        debug_assert!(self.is(descriptor.node(), tag(descriptor)), "the batch lock of the page");
        let list = ListKind::of(descriptor.state.clear(State::LRU));
        self.lock.removed.count(list, 1);
        list
    }
}

/// Unlinks an inner page. The caller holds its batch lock, which its neighbours share.
fn unlink_inner(table: &DescriptorTable, page: PageNo) {
    let (next, previous) = table.both(page);
    let beside = (next.get(), previous.get());
    let (Some(behind), Some(before)) = beside else {
        unreachable!("an inner page has a page on either side");
    };
    table.set_previous(behind, previous);
    table.set_next(before, next);
}

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
