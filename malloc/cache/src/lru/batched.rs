//! `batched`: neighbours on a list form batches, and pages inside a batch leave without the LRU
//! lock (D. Jordan, "lru_lock scalability", January 2018; never merged).
//!
//! `splice` adds pages in another way (`splice.rs`).
//!
//! `batches.rs` defines *inner* pages and *sentinels*. A release of several pages first takes the
//! inner pages off, under their batch locks, and then the sentinels, under the LRU lock. (If it
//! took pages in list order, each sentinel that leaves would make the next page a sentinel.)

use super::batches::{Batch, INNER, Locked, NodeLists, role, tag};
use super::page::{Descriptor, DescriptorTable, PageNo};
use super::policy::{
    ListKind, Lists, LruCounters, LruPolicy, SWAP_CLUSTER_MAX, Setup, Sizes, Waiting,
};
use super::splice::{Local, Splicer};
use super::state::State;
use quarry_mm::frame::{NodeId, OsArray};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::SlotIndex;

/// Maximum number of pages that a release takes off in these steps: a batch of `mmu_gather`.
const RELEASE: usize = 512;

/// Batches of neighbours, each under a lock of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batched;

impl LruPolicy for Batched {
    type Lists = BatchedLists;

    fn name(&self) -> &'static str {
        "batched"
    }

    fn build(&self, setup: Setup) -> OsResult<BatchedLists> {
        BatchedLists::build(setup, None)
    }
}

/// Batches as under `batched`, whose pages are linked before the batch comes to a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Splice;

impl LruPolicy for Splice {
    type Lists = BatchedLists;

    fn name(&self) -> &'static str {
        "splice"
    }

    fn build(&self, setup: Setup) -> OsResult<BatchedLists> {
        let splicer = Splicer::build(&setup)?;
        BatchedLists::build(setup, Some(splicer))
    }
}

/// The lists of all nodes.
pub struct BatchedLists {
    nodes: OsArray<NodeLists>,
    batch: usize,
    /// Under `splice`.
    splicer: Option<Splicer>,
}

impl BatchedLists {
    fn build(setup: Setup, splicer: Option<Splicer>) -> OsResult<Self> {
        let nodes =
            OsArray::filled(setup.os, setup.nodes, |node| NodeLists::new(node, setup.counts))?;
        Ok(Self { nodes, batch: setup.batch, splicer })
    }

    fn all(&self) -> impl Iterator<Item = &NodeLists> {
        (0..self.nodes.len()).map(|node| self.nodes.at(node))
    }

    fn of(&self, node: NodeId) -> &NodeLists {
        self.nodes.at(node.0 as usize)
    }

    /// Returns the locked lists of `node`; keeps `held` if it is their lock, else releases it
    /// first.
    fn relock<'a, 'b>(
        &'a self,
        held: &'b mut Option<Locked<'a>>,
        node: NodeId,
    ) -> &'b mut Locked<'a> {
        if held.as_ref().is_some_and(|held| !held.is_of(node)) {
            *held = None;
        }
        held.get_or_insert_with(|| self.of(node).hold(node))
    }

    /// Like `relock`, for a page's batch lock. A scan may change the tag before the lock is held.
    fn relock_batch<'a, 'b>(
        &'a self,
        held: &'b mut Option<Batch<'a>>,
        descriptor: &Descriptor,
    ) -> &'b mut Batch<'a> {
        let node = descriptor.node();
        loop {
            let tag = tag(descriptor);
            if held.as_ref().is_some_and(|held| !held.is(node, tag)) {
                *held = None;
            }
            held.get_or_insert_with(|| self.of(node).hold_batch(node, tag));
            if self::tag(descriptor) == tag {
                return held.as_mut().expect("just taken");
            }
        }
    }

    fn insert_singly(&self, table: &DescriptorTable, pages: &[PageNo]) {
        let mut held = None;
        for &page in pages {
            self.relock(&mut held, table.at(page).node()).add(table, page, self.batch);
        }
    }

    /// Takes inner pages off under their batch locks. Returns a bit for each sentinel.
    fn release_inner(&self, table: &DescriptorTable, pages: &[PageNo]) -> [u64; RELEASE / 64] {
        let mut sentinels = [0; RELEASE / 64];
        let mut held = None;
        for (number, &page) in pages.iter().enumerate() {
            let descriptor = table.at(page);
            if !descriptor.state.load().has(State::LRU) {
                continue;
            }
            // If a sentinel becomes an inner page after this check, the second pass still takes it.
            let is_inner = role(descriptor) == INNER && {
                let batch = self.relock_batch(&mut held, descriptor);
                let is_inner = role(descriptor) == INNER;
                if is_inner {
                    batch.release(table, page);
                }
                is_inner
            };
            if !is_inner {
                sentinels[number / 64] |= 1 << (number % 64);
            }
        }
        sentinels
    }

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
            // The tag stays: a scan changes it only under the LRU lock, which this task holds.
            let batch = self.of(descriptor.node()).hold_batch(descriptor.node(), tag(descriptor));
            locked.release(&batch, table, page);
            since += 1;
        }
    }
}

impl Lists for BatchedLists {
    fn insert(&self, table: &DescriptorTable, slot: SlotIndex, pages: &[PageNo]) {
        let Some(splicer) = &self.splicer else { return self.insert_singly(table, pages) };
        let (locals, singles) = splicer.sort(table, slot, pages);
        let mut held = None;
        for local in locals.into_iter().flatten() {
            let Local { at: (node, list), batch, pages, .. } = local;
            self.relock(&mut held, node).splice(table, list, batch, pages);
        }
        drop(held);
        self.insert_singly(table, &singles);
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
    ) -> usize {
        self.of(node).isolate(table, (node, from), (waiting, self.batch), out)
    }

    fn sizes(&self, node: NodeId) -> Sizes {
        self.of(node).sizes()
    }

    fn counters(&self) -> LruCounters {
        let mut counters = LruCounters::default();
        self.all().for_each(|lists| lists.count(&mut counters));
        counters
    }

    fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.all().for_each(|lists| lists.visit_locks(visit));
    }

    fn validate(&self, table: &DescriptorTable) -> Result<(), Broken> {
        let mut all = self.all().enumerate();
        all.try_for_each(|(node, lists)| lists.validate(table, NodeId(node as u8)))
    }
}
