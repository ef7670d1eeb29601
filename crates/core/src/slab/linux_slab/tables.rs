//! The policy's records of slabs, nodes and CPUs: arrays of its own, counted as metadata, made when
//! the first cache is created, so that a stack with another policy pays nothing.

use super::alien::AlienArray;
use super::node::Node;
use super::records::Records;
use crate::frame::{FreshZero, NodeId, OsArray};
use crate::slab::cache::{CacheId, MAX_CACHES};
use crate::slab::context::SlabContext;
use crate::slab::table::CacheTable;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::{PerCpu, SlotIndex};
use quarry_sys::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The reaper of one slot.
#[derive(Default)]
#[repr(C)]
pub(super) struct Reaper {
    /// When its next reap is due; 0 = it has not begun.
    pub(super) next: AtomicU64,
    /// Reaps so far: they say which node's aliens go next.
    pub(super) turns: AtomicU32,
}

// SAFETY: made of atomics whose default is 0.
unsafe impl FreshZero for Reaper {}

/// The arrays.
pub(super) struct Tables {
    pub(super) records: Records,
    /// One for each cache and node.
    nodes: OsArray<Node>,
    /// One for each cache, node and home; none on one node.
    aliens: Option<OsArray<AlienArray>>,
    reapers: OsArray<Reaper>,
    nodes_each: usize,
}

impl Tables {
    fn reserve(os: &'static dyn Os, frames: usize, slots: usize, nodes: usize) -> OsResult<Self> {
        let aliens = match nodes {
            1 => None,
            _ => Some(OsArray::zeroed(os, MAX_CACHES * nodes * nodes)?),
        };
        Ok(Self {
            records: Records::reserve(os, frames)?,
            nodes: OsArray::zeroed(os, MAX_CACHES * nodes)?,
            aliens,
            reapers: OsArray::zeroed(os, slots)?,
            nodes_each: nodes,
        })
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.nodes_each
    }

    /// The nodes, in order.
    pub(super) fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes_each as u8).map(NodeId)
    }

    /// A cache's part of a node.
    pub(super) fn node(&self, cache: CacheId, node: NodeId) -> &Node {
        self.nodes.at(cache.index() * self.nodes_each + usize::from(node.0))
    }

    /// The array in which CPUs of `node` gather objects whose memory is of `home`, another node.
    pub(super) fn alien(&self, cache: CacheId, node: NodeId, home: NodeId) -> Option<&AlienArray> {
        let of_cache = cache.index() * self.nodes_each + usize::from(node.0);
        let index = of_cache * self.nodes_each + usize::from(home.0);
        self.aliens.as_ref().filter(|_| node != home).map(|aliens| aliens.at(index))
    }

    /// The alien arrays of a cache, each with its home.
    pub(super) fn aliens(&self, cache: CacheId) -> impl Iterator<Item = (NodeId, &AlienArray)> {
        let homes = move |node| self.node_ids().map(move |home| (node, home));
        let of = move |(node, home)| Some((home, self.alien(cache, node, home)?));
        self.node_ids().flat_map(homes).filter_map(of)
    }

    /// Bytes that one cache's nodes take.
    pub(super) fn bytes_per_cache(&self) -> usize {
        let aliens = if self.aliens.is_some() { self.nodes_each * self.nodes_each } else { 0 };
        self.nodes_each * size_of::<Node>() + aliens * size_of::<AlienArray>()
    }

    /// The reaper of a slot.
    pub(super) fn reaper(&self, slot: SlotIndex) -> &Reaper {
        self.reapers.at(slot.index())
    }

    /// Visits the locks of the records, and those of all nodes of `caches`.
    pub(super) fn visit_locks(&self, caches: &CacheTable, visit: &mut Visit<'_>) {
        self.records.visit_locks(visit);
        for cache in caches.iter() {
            self.node_ids().for_each(|node| self.node(cache.id(), node).visit_locks(visit));
            self.aliens(cache.id()).for_each(|(_, aliens)| aliens.visit_locks(visit));
        }
    }
}

/// The tables of a policy, from its first cache on; nothing before is all zero bytes.
pub(super) struct LateTables {
    tables: UnsafeCell<MaybeUninit<Tables>>,
    ready: AtomicBool,
}

// SAFETY: `tables` is written once by `build` before `ready` is set with release ordering, and read
// only after `ready` was seen; what it holds may be shared.
unsafe impl Sync for LateTables {}
// SAFETY: nothing in the tables belongs to a thread.
unsafe impl Send for LateTables {}

impl LateTables {
    pub(super) const fn new() -> Self {
        Self { tables: UnsafeCell::new(MaybeUninit::uninit()), ready: AtomicBool::new(false) }
    }

    /// Reserves the tables at the first call. One thread at a time: the table of caches sees to it.
    pub(super) fn build<P: PerCpu>(&self, context: &SlabContext<'_, P>) -> OsResult<&Tables> {
        if self.get().is_none() {
            let arena = context.pages.arena();
            let slots = context.percpu.area().slots() as usize;
            let nodes = context.pages.zones().all().count();
            let tables = Tables::reserve(arena.os(), arena.frames() as usize, slots, nodes)?;
            // SAFETY: no thread reads before `ready`, and only one builds.
            unsafe { (*self.tables.get()).write(tables) };
            self.ready.store(true, Ordering::Release);
        }
        Ok(self.get().expect("just built"))
    }

    /// The tables, if there is a cache.
    pub(super) fn get(&self) -> Option<&Tables> {
        // SAFETY: `ready` is set after the tables were written, and they never change again.
        self.ready
            .load(Ordering::Acquire)
            .then(|| unsafe { (*self.tables.get()).assume_init_ref() })
    }
}

impl Drop for LateTables {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: written, and no other reference to what is being dropped exists.
            unsafe { (*self.tables.get()).assume_init_drop() };
        }
    }
}
