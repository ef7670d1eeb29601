//! SLUB's records of slabs, nodes and CPUs: arrays of its own, counted as metadata.
//!
//! | array | bytes | per | what |
//! |---|---|---|---|
//! | words | 8 or 12 | frame | [`Words`] |
//! | nodes | 128 | cache and node | [`Node`] |
//! | cpus | 64 | slot and cache | [`CpuSlab`]; one slot's lie together |
//! | slots | 64 | slot | [`Slot`]: the lock of its partial lists |
//!
//! All are made when the first cache is created, so that a stack with another policy pays nothing.

use super::cpu::CpuSlab;
use super::node::Node;
use super::state::SlabWord;
use super::words::Words;
use crate::frame::{FreshZero, NodeId, OsArray};
use crate::slab::cache::{CacheId, MAX_CACHES};
use crate::slab::context::SlabContext;
use crate::slab::table::CacheTable;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{Os, OsResult};
use quarry_sys::percpu::{Lists, SlotIndex};
use quarry_sys::primitive::{AtomicBool, Ordering};

/// The state that all caches of a slot share, on a cache line of its own.
#[repr(C, align(64))]
struct Slot {
    /// Guards the partial lists.
    lock: CountedLock<()>,
    /// True if any cache has had something to do here: most slots of a large machine have not, and
    /// looking at them would fault in their pages.
    used: AtomicBool,
}

impl Default for Slot {
    fn default() -> Self {
        Self { lock: CountedLock::new(()), used: AtomicBool::new(false) }
    }
}

// SAFETY: a free lock with counters of 0 is all zero bytes.
unsafe impl FreshZero for Slot {}

/// The arrays.
pub(super) struct Tables<W> {
    /// The records of slabs.
    pub(super) words: Words<W>,
    nodes: OsArray<Node>,
    cpus: OsArray<CpuSlab>,
    slots: OsArray<Slot>,
    nodes_each: usize,
}

impl<W: SlabWord> Tables<W> {
    fn reserve(os: &'static dyn Os, frames: usize, slots: usize, nodes: usize) -> OsResult<Self> {
        Ok(Self {
            words: Words::reserve(os, frames)?,
            nodes: OsArray::zeroed(os, MAX_CACHES * nodes)?,
            cpus: OsArray::zeroed(os, MAX_CACHES * slots)?,
            slots: OsArray::zeroed(os, slots)?,
            nodes_each: nodes,
        })
    }

    /// A cache's part of a node.
    pub(super) fn node(&self, cache: CacheId, node: NodeId) -> &Node {
        self.nodes.at(cache.index() * self.nodes_each + usize::from(node.0))
    }

    /// A cache's parts of all nodes.
    pub(super) fn nodes(&self, cache: CacheId) -> impl Iterator<Item = &Node> {
        (0..self.nodes_each as u8).map(move |node| self.node(cache, NodeId(node)))
    }

    /// Bytes that one cache's nodes and slots take.
    pub(super) fn bytes_per_cache(&self) -> usize {
        self.nodes_each * size_of::<Node>() + self.slots.len() * size_of::<CpuSlab>()
    }

    /// A cache's part of a slot.
    pub(super) fn cpu(&self, cache: CacheId, slot: SlotIndex) -> &CpuSlab {
        let used = &self.slots.at(slot.index()).used;
        if !used.load(Ordering::Relaxed) {
            used.store(true, Ordering::Release);
        }
        self.cpus.at(slot.index() * MAX_CACHES + cache.index())
    }

    /// Visits the locks of the tables, of the nodes of `caches`, and of slots.
    pub(super) fn visit_locks(&self, caches: &CacheTable, visit: &mut Visit<'_>) {
        self.words.visit_locks(visit);
        for cache in caches.iter() {
            self.nodes(cache.id()).for_each(|node| node.visit_locks(visit));
        }
        for slot in self.used_slots() {
            visit("slub->slot_lock", &self.slots.at(slot.index()).lock);
        }
    }

    /// The lock of a slot's partial lists, of all caches.
    pub(super) fn slot_lock(&self, slot: SlotIndex) -> &CountedLock<()> {
        &self.slots.at(slot.index()).lock
    }

    /// The slots in which a cache has had something to do.
    pub(super) fn used_slots(&self) -> impl Iterator<Item = SlotIndex> {
        let slots = (0..self.slots.len() as u32).map(SlotIndex);
        slots.filter(|slot| self.slots.at(slot.index()).used.load(Ordering::Acquire))
    }
}

/// The tables of a policy, from its first cache on.
pub(super) struct LateTables<W> {
    tables: UnsafeCell<MaybeUninit<Tables<W>>>,
    ready: AtomicBool,
}

// SAFETY: `tables` is written once by `build` before `ready` is set with release ordering, and read
// only after `ready` was seen; what it holds may be shared.
unsafe impl<W: Sync> Sync for LateTables<W> {}
// SAFETY: nothing in the tables belongs to a thread.
unsafe impl<W: Send> Send for LateTables<W> {}

impl<W> LateTables<W> {
    pub(super) const fn new() -> Self {
        Self { tables: UnsafeCell::new(MaybeUninit::uninit()), ready: AtomicBool::new(false) }
    }

    /// The tables, if there is a cache.
    pub(super) fn get(&self) -> Option<&Tables<W>> {
        // SAFETY: `ready` is set after the tables were written, and they never change again.
        self.ready
            .load(Ordering::Acquire)
            .then(|| unsafe { (*self.tables.get()).assume_init_ref() })
    }
}

impl<W: SlabWord> LateTables<W> {
    /// Reserves the tables at the first call. One thread at a time: the table of caches sees to it.
    pub(super) fn build<P: Lists>(&self, context: &SlabContext<'_, P>) -> OsResult<&Tables<W>> {
        if self.get().is_none() {
            let arena = context.pages.arena();
            let slots = context.percpu.area().slots() as usize;
            let nodes = context.pages.zones().all().count();
            let frames = arena.frames() as usize;
            let tables = Tables::reserve(arena.os(), frames, slots, nodes)?;
            // SAFETY: no thread reads before `ready`, and only one builds.
            unsafe { (*self.tables.get()).write(tables) };
            self.ready.store(true, Ordering::Release);
        }
        Ok(self.get().expect("just built"))
    }
}

impl<W> Drop for LateTables<W> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: written, and no other reference to what is being dropped exists.
            unsafe { (*self.tables.get()).assume_init_drop() };
        }
    }
}
