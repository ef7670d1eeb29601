//! The LRU of a page cache: the lists of all nodes, and the add batch of each CPU.

use super::add_batch::{MOST_ADD_BATCH, Pages};
use super::batched::Splice;
use super::page::{DescriptorTable, PageNo};
use super::policy::{ListKind, Lists, LruCounters, LruPolicy, Setup, Sizes, Waiting};
use super::state::State;
use quarry_mm::frame::{NodeId, OsArray};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::lock::{Chosen, CountedLock};
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::SlotIndex;
use quarry_sys::primitive::{AtomicU64, Ordering::Relaxed};

/// Sizes of add batches that the lab's tables compare: that of Linux up to 4.15 (`PAGEVEC_SIZE`),
/// that of Linux from 6.10 on, and four times the first (document 004, see `PROVENANCE.md`).
pub const ADD_BATCHES: [usize; 3] = [14, 31, 56];

/// Options of the LRU lists. With two threads `splice` adds and releases a page 8 to 13 ns faster
/// than `single`, with one thread 3 ns slower (`lab/docs/policies/lru-splice.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruOptions<P = Splice> {
    /// The locking of the lists.
    pub policy: P,
    /// Pages of a full add batch, at most [`MOST_ADD_BATCH`]. Under `batched` and `splice`, this is
    /// also the size of a closed batch on a list.
    pub add_batch: usize,
    /// If true, locks count acquisitions, contention and time; if false, they read no clock.
    pub counts: bool,
    /// If true, a page that only its add batch still pins goes onto no list (document 009); if
    /// false, it is put on a list and taken off again (Linux up to 7.0).
    pub frees_dead: bool,
}

impl<P: LruPolicy> Default for LruOptions<P> {
    fn default() -> Self {
        Self { policy: P::default(), add_batch: 31, counts: true, frees_dead: true }
    }
}

#[repr(align(128))]
struct AddBatch {
    waiting: CountedLock<Pages, Chosen>,
}

/// Invariants: a page in an add batch is pinned by the batch and on no list; a batch holds fewer
/// than `add_batch` pages while no task holds its lock; a page is on a list iff it has `LRU`.
///
/// No code here asks for memory or for a lock of another layer while it holds a lock. So a reclaim
/// inside `malloc` may wait for these locks, except for one that the running task itself holds.
pub struct LruSet<P: LruPolicy = Splice> {
    options: LruOptions<P>,
    lists: P::Lists,
    /// Pages that were put on lists though only their add batch still pinned them.
    dead_added: AtomicU64,
    batches: OsArray<AddBatch>,
}

/// Frees a page that left the LRU, is in no index and has no pin. Called while no lock is held.
pub type Released<'a> = dyn FnMut(PageNo) + 'a;

/// Sets or clears `ACTIVE` of a page that is on no list.
fn mark(table: &DescriptorTable, page: PageNo, active: bool) {
    let state = &table.at(page).state;
    let now = state.load();
    debug_assert!(!now.has(State::LRU), "a page is added once");
    if now.has(State::ACTIVE) != active {
        if active {
            state.set(State::ACTIVE)
        } else {
            state.clear(State::ACTIVE)
        };
    }
}

impl<P: LruPolicy> LruSet<P> {
    /// Empty lists for `nodes` nodes, and batches for `slots` slots.
    ///
    /// # Errors
    /// The error of the OS.
    ///
    /// # Panics
    /// If a batch has no page, or more than [`MOST_ADD_BATCH`].
    pub fn build(
        os: &'static dyn Os,
        options: LruOptions<P>,
        slots: usize,
        nodes: usize,
    ) -> OsResult<Self> {
        let LruOptions { policy, add_batch, counts, .. } = options;
        assert!((1..=MOST_ADD_BATCH).contains(&add_batch), "an add batch has 1 to 56 pages");
        let setup = Setup { os, nodes, slots, batch: add_batch, counts };
        let lists = policy.build(setup)?;
        let batches = OsArray::filled(os, slots, |_| AddBatch {
            waiting: CountedLock::counting(Pages::NONE, Chosen(counts)),
        })?;
        Ok(Self { options, lists, dead_added: AtomicU64::new(0), batches })
    }

    /// The options that the set was built with.
    #[must_use]
    pub fn options(&self) -> LruOptions<P> {
        self.options
    }

    /// Puts a page into a slot's add batch, which pins it. The page is on no list, and the caller
    /// pins it too. Moves a full batch to the lists; if the batch is locked, moves only the page.
    pub fn add(
        &self,
        table: &DescriptorTable,
        slot: SlotIndex,
        page: PageNo,
        active: bool,
        released: &mut Released<'_>,
    ) {
        mark(table, page, active);
        table.at(page).state.pin_again();
        let Some(mut waiting) = self.batches.at(slot.0 as usize).waiting.try_lock() else {
            return self.move_to_lists(table, slot, &[page], released);
        };
        waiting.push(page);
        if waiting.len() < self.options.add_batch {
            return;
        }
        let full = waiting.take();
        drop(waiting);
        self.move_to_lists(table, slot, &full, released);
    }

    /// Moves the add batch of a slot to the lists, unless another task has locked the batch.
    pub fn drain(&self, table: &DescriptorTable, slot: SlotIndex, released: &mut Released<'_>) {
        let Some(mut waiting) = self.batches.at(slot.0 as usize).waiting.try_lock() else {
            return;
        };
        let all = waiting.take();
        drop(waiting);
        self.move_to_lists(table, slot, &all, released);
    }

    /// Moves all add batches to the lists. Other tasks may be moving earlier batches. O(slots).
    pub fn drain_all(&self, table: &DescriptorTable, released: &mut Released<'_>) {
        for slot in 0..self.batches.len() {
            let all = self.batches.at(slot).waiting.lock().take();
            self.move_to_lists(table, SlotIndex(slot as u32), &all, released);
        }
    }

    /// Puts pages on their lists, and gives up one pin of each. A page that is in no index and has
    /// no other pin is released instead, if `frees_dead` is set. No task can pin such a page: a pin
    /// or an index leads to a page, and it has neither.
    fn move_to_lists(
        &self,
        table: &DescriptorTable,
        slot: SlotIndex,
        pages: &[PageNo],
        released: &mut Released<'_>,
    ) {
        let mut alive = Pages::NONE;
        for &page in pages {
            let state = &table.at(page).state;
            let now = state.load();
            let is_dead = now.pins() == 1 && !now.has(State::LIVE);
            if !(is_dead && self.options.frees_dead) {
                alive.push(page);
            } else if state.unpin() {
                released(page);
            }
        }
        if alive.is_empty() {
            return;
        }
        self.lists.insert(table, slot, &alive);
        let mut dead = Pages::NONE;
        for &page in alive.iter() {
            if table.at(page).state.unpin() {
                dead.push(page);
            }
        }
        if !dead.is_empty() {
            self.dead_added.fetch_add(dead.len() as u64, Relaxed);
            self.lists.remove(table, &dead);
            dead.iter().for_each(|page| released(*page));
        }
    }

    /// Takes pages off their lists; skips pages on no list. The caller owns them.
    pub fn remove(&self, table: &DescriptorTable, pages: &[PageNo]) {
        self.lists.remove(table, pages);
    }

    /// Takes up to `out.len()` pages from the tail of a list, and pins them. Passes over pages that
    /// are in no index, and moves up to 32 of them to the front. Returns how many it took.
    pub fn isolate(
        &self,
        table: &DescriptorTable,
        from: (NodeId, ListKind),
        waiting: Waiting,
        out: &mut [PageNo],
    ) -> usize {
        self.lists.isolate(table, from, waiting, out)
    }

    /// Puts isolated pages on the fronts of their lists (true in `pages`: the active list), and
    /// gives up the pins of [`isolate`](Self::isolate). `slot` is that of the running CPU.
    pub fn put_back(
        &self,
        table: &DescriptorTable,
        slot: SlotIndex,
        pages: &[(PageNo, bool)],
        released: &mut Released<'_>,
    ) {
        for some in pages.chunks(MOST_ADD_BATCH) {
            let mut marked = Pages::NONE;
            for &(page, active) in some {
                mark(table, page, active);
                marked.push(page);
            }
            self.move_to_lists(table, slot, &marked, released);
        }
    }

    /// Pages on the lists of a node, without those in add batches.
    #[must_use]
    pub fn sizes(&self, node: NodeId) -> Sizes {
        self.lists.sizes(node)
    }

    /// The counters of the lists.
    #[must_use]
    pub fn counters(&self) -> LruCounters {
        LruCounters { dead_added: self.dead_added.load(Relaxed), ..self.lists.counters() }
    }

    /// Visits the locks of all lists.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.lists.visit_locks(visit);
        for slot in 0..self.batches.len() {
            visit("cpu->lru_add", &self.batches.at(slot).waiting);
        }
    }

    /// Checks the equations of lists and batches; no other task may use the set. O(pages).
    ///
    /// # Errors
    /// The first equation that does not hold.
    pub fn validate(&self, table: &DescriptorTable) -> Result<(), Broken> {
        self.lists.validate(table)?;
        for slot in 0..self.batches.len() {
            let waiting = self.batches.at(slot).waiting.lock();
            let (len, check) = (waiting.len(), Check::of("add batch").at(slot as u64));
            check.that(len < self.options.add_batch, "pages in a batch < its size")?;
            for &page in waiting.iter() {
                let (state, check) = (table.at(page).state.load(), Check::of("add batch"));
                check.at(page.0).that(state.pins() > 0, "a page in a batch is pinned")?;
                check.at(page.0).that(!state.has(State::LRU), "it is on no list")?;
            }
        }
        Ok(())
    }
}
