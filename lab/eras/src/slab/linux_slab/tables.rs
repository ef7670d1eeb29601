//! The policy's records of slabs, nodes and CPUs, in arrays that are counted as metadata.

use super::alien::AlienArray;
use super::node::Node;
use super::slab::Records;
use quarry_mm::frame::{FreshZero, NodeId, OsArray};
use quarry_mm::slab::{CacheId, CacheTable, MAX_CACHES, SlabContext};
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{PerCpu, SlotIndex};
use quarry_sys::primitive::{AtomicU32, AtomicU64};

#[repr(C)]
pub(super) struct Reaper {
    /// The time of the next reap; 0 before the CPU's first slow path.
    pub(super) next: AtomicU64,
    /// Reaps so far, which select the node whose alien array is emptied next.
    pub(super) turns: AtomicU32,
}

// SAFETY: a `Reaper` consists of atomics, for which 0 is valid.
unsafe impl FreshZero for Reaper {}

pub(super) struct Tables {
    pub(super) records: Records,
    nodes: OsArray<Node>,
    /// One alien array for each cache, node and home node; `None` if there is only one node.
    aliens: Option<OsArray<AlienArray>>,
    reapers: OsArray<Reaper>,
    nodes_each: usize,
}

impl Tables {
    pub(super) fn reserve<P: PerCpu>(context: &SlabContext<'_, P>) -> OsResult<Self> {
        let (os, frames) = (context.zones.arena().os(), context.zones.arena().frames() as usize);
        let slots = context.percpu.area().slots() as usize;
        let nodes = context.zones.all().count();
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

    pub(super) fn nodes(&self) -> usize {
        self.nodes_each
    }

    pub(super) fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes_each as u8).map(NodeId)
    }

    pub(super) fn node(&self, cache: CacheId, node: NodeId) -> &Node {
        self.nodes.at(cache.index() * self.nodes_each + usize::from(node.0))
    }

    /// The array in which CPUs of `node` gather objects of the memory of another node, `home`.
    pub(super) fn alien(&self, cache: CacheId, node: NodeId, home: NodeId) -> Option<&AlienArray> {
        let of_cache = cache.index() * self.nodes_each + usize::from(node.0);
        let index = of_cache * self.nodes_each + usize::from(home.0);
        self.aliens.as_ref().filter(|_| node != home).map(|aliens| aliens.at(index))
    }

    /// The alien arrays of a cache, each with its home node.
    pub(super) fn aliens(&self, cache: CacheId) -> impl Iterator<Item = (NodeId, &AlienArray)> {
        let homes = move |node| self.node_ids().map(move |home| (node, home));
        let of = move |(node, home)| Some((home, self.alien(cache, node, home)?));
        self.node_ids().flat_map(homes).filter_map(of)
    }

    pub(super) fn bytes_per_cache(&self) -> usize {
        let aliens = if self.aliens.is_some() { self.nodes_each * self.nodes_each } else { 0 };
        self.nodes_each * size_of::<Node>() + aliens * size_of::<AlienArray>()
    }

    pub(super) fn reaper(&self, slot: SlotIndex) -> &Reaper {
        self.reapers.at(slot.index())
    }

    pub(super) fn visit_locks(&self, caches: &CacheTable, visit: &mut Visit<'_>) {
        self.records.visit_locks("slab->growth", visit);
        for cache in caches.iter() {
            self.node_ids().for_each(|node| self.node(cache.id(), node).visit_locks(visit));
            self.aliens(cache.id()).for_each(|(_, aliens)| aliens.visit_locks(visit));
        }
    }
}
