//! The policy's records of slabs, lists and slots, in arrays that are counted as metadata.
//!
//! | array | bytes | per | what |
//! |---|---|---|---|
//! | slabs | 8 | frame | [`Slabs`] |
//! | lists | 384 | cache, and slot or node | [`CacheList`]; the lists of one slot lie together |
//! | slots | 64 | slot | true once any cache has used it |
//!
//! A machine with one node has no lists of nodes.

use super::list::CacheList;
use super::slab_word::{ListId, Slabs};
use quarry_mm::frame::{FreshZero, NodeId, OsArray};
use quarry_mm::slab::{CacheId, CacheTable, MAX_CACHES, SlabContext};
use quarry_sys::locks::Visit;
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::percpu::{PerCpu, SlotIndex};
use quarry_sys::primitive::{AtomicBool, Ordering};

const _: () = assert!(size_of::<CacheList>() <= 384, "the size that the table above names");

/// True once any cache has used a slot, on a cache line of its own. Walks skip unused slots:
/// reading their lists would fault in pages, and a large machine has many such slots.
#[repr(C, align(64))]
struct Used(AtomicBool);

// SAFETY: a zero byte is `false`.
unsafe impl FreshZero for Used {}

pub(super) struct Tables {
    pub(super) slabs: Slabs,
    lists: OsArray<CacheList>,
    slots: OsArray<Used>,
    nodes: usize,
    /// Caches whose lists have been counted as metadata.
    counted: [AtomicBool; MAX_CACHES],
}

impl Tables {
    pub(super) fn reserve<P: PerCpu>(context: &SlabContext<'_, P>) -> OsResult<Self> {
        let (os, frames) = (context.zones.arena().os(), context.zones.arena().frames() as usize);
        let slots = context.percpu.area().slots() as usize;
        let nodes = match context.zones.all().count() {
            1 => 0,
            several => several,
        };
        let lists = slots + nodes;
        if lists > ListId::END {
            return Err(OsError(libc::ENOSPC));
        }
        Ok(Self {
            slabs: Slabs::reserve(os, frames)?,
            lists: OsArray::zeroed(os, MAX_CACHES * lists)?,
            slots: OsArray::zeroed(os, slots)?,
            nodes,
            counted: [const { AtomicBool::new(false) }; MAX_CACHES],
        })
    }

    /// Nodes that have lists: 0 on a machine with one node.
    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// The list of a slot, which becomes used.
    pub(super) fn of_slot(&self, slot: SlotIndex) -> ListId {
        let used = &self.slots.at(slot.index()).0;
        if !used.load(Ordering::Relaxed) {
            used.store(true, Ordering::Release);
        }
        ListId(slot.0 as u16)
    }

    pub(super) fn of_node(&self, node: NodeId) -> ListId {
        debug_assert!(usize::from(node.0) < self.nodes);
        ListId((self.slots.len() + usize::from(node.0)) as u16)
    }

    /// The slot that a list belongs to; `None` for a node's list.
    pub(super) fn slot_of(&self, list: ListId) -> Option<SlotIndex> {
        (list.index() < self.slots.len()).then_some(SlotIndex(u32::from(list.0)))
    }

    pub(super) fn list(&self, cache: CacheId, list: ListId) -> &CacheList {
        self.lists.at(list.index() * MAX_CACHES + cache.index())
    }

    pub(super) fn used_slots(&self) -> impl Iterator<Item = SlotIndex> + Clone {
        let is_used = |slot: &SlotIndex| self.slots.at(slot.index()).0.load(Ordering::Acquire);
        (0..self.slots.len() as u32).map(SlotIndex).filter(is_used)
    }

    /// The lists of used slots and of all nodes.
    pub(super) fn used_lists(&self) -> impl Iterator<Item = ListId> + Clone {
        let nodes = (0..self.nodes as u8).map(|node| self.of_node(NodeId(node)));
        self.used_slots().map(|slot| ListId(slot.0 as u16)).chain(nodes)
    }

    /// Bytes of a cache's lists; 0 if they have been counted before.
    pub(super) fn count_lists(&self, cache: CacheId) -> usize {
        let is_counted = self.counted[cache.index()].swap(true, Ordering::Relaxed);
        if is_counted { 0 } else { (self.slots.len() + self.nodes) * size_of::<CacheList>() }
    }

    pub(super) fn visit_locks(&self, caches: &CacheTable, visit: &mut Visit<'_>) {
        self.slabs.visit_locks("slqb->growth", visit);
        for list in self.used_lists() {
            let is_cpu = self.slot_of(list).is_some();
            caches.iter().for_each(|cache| self.list(cache.id(), list).visit_locks(is_cpu, visit));
        }
    }
}
