//! SLUB's records of slabs, nodes and CPUs, in arrays that are counted as metadata.
//!
//! | array | bytes | per | what |
//! |---|---|---|---|
//! | words | 8 or 12 | frame | [`Records`] |
//! | nodes | 128 | cache and node | [`Node`] |
//! | cpus | 64 | slot and cache | [`CpuSlab`]; the entries of one slot lie together |
//! | slots | 64 | slot | [`Slot`]: the lock of its partial lists |

use super::cpu::CpuSlab;
use super::era::Era;
use super::lock_word::Holder;
use super::node::Node;
use super::state::SlabWord;
use crate::slab::records::Records;
use quarry_mm::frame::{FreshZero, NodeId, OsArray};
use quarry_mm::slab::{CacheId, CacheTable, MAX_CACHES, SlabContext};
use quarry_sys::lock::{CountedLock, LockStats};
use quarry_sys::locks::{AnyLock, Visit};
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Lists, SlotIndex};
use quarry_sys::primitive::{AtomicBool, Ordering};

/// The state that all caches of a slot share, on a cache line of its own.
#[repr(C, align(64))]
struct Slot {
    lock: CountedLock<()>,
    holder: Holder,
    /// True once any cache has used this slot. Walks skip unused slots: reading their entries would
    /// fault in pages, and a large machine has many such slots.
    used: AtomicBool,
}

// SAFETY: a free lock with counters of 0 is all zero bytes.
unsafe impl FreshZero for Slot {}

/// The counts of all slabs' lock bits, shown as those of one lock. Threads take the bits only
/// inside the gate, so `fork` finds them free.
struct SlabLocks(LockStats);

impl AnyLock for SlabLocks {
    fn is_free(&self) -> bool {
        true
    }

    fn stats(&self) -> Option<LockStats> {
        Some(self.0)
    }

    fn adopt_in_child(&self) {}
}

pub struct Tables<E: Era> {
    pub(super) words: Records<E::Word>,
    nodes: OsArray<Node>,
    cpus: OsArray<CpuSlab>,
    slots: OsArray<Slot>,
    nodes_each: usize,
}

impl<E: Era> Tables<E> {
    pub(super) fn reserve<P: Lists>(context: &SlabContext<'_, P>) -> OsResult<Self> {
        let (os, frames) = (context.zones.arena().os(), context.zones.arena().frames() as usize);
        let slots = context.percpu.area().slots() as usize;
        let nodes = context.zones.all().count();
        Ok(Self {
            words: Records::reserve(os, frames)?,
            nodes: OsArray::zeroed(os, MAX_CACHES * nodes)?,
            cpus: OsArray::zeroed(os, MAX_CACHES * slots)?,
            slots: OsArray::zeroed(os, slots)?,
            nodes_each: nodes,
        })
    }

    pub(super) fn node(&self, cache: CacheId, node: NodeId) -> &Node {
        self.nodes.at(cache.index() * self.nodes_each + usize::from(node.0))
    }

    pub(super) fn nodes(&self, cache: CacheId) -> impl Iterator<Item = &Node> {
        (0..self.nodes_each as u8).map(move |node| self.node(cache, NodeId(node)))
    }

    pub(super) fn bytes_per_cache(&self) -> usize {
        self.nodes_each * size_of::<Node>() + self.slots.len() * size_of::<CpuSlab>()
    }

    pub(super) fn cpu(&self, cache: CacheId, slot: SlotIndex) -> &CpuSlab {
        let used = &self.slots.at(slot.index()).used;
        if !used.load(Ordering::Relaxed) {
            used.store(true, Ordering::Release);
        }
        self.cpus.at(slot.index() * MAX_CACHES + cache.index())
    }

    pub(super) fn visit_locks(&self, caches: &CacheTable, visit: &mut Visit<'_>) {
        self.words.visit_locks("slub->growth", visit);
        for cache in caches.iter() {
            self.nodes(cache.id()).for_each(|node| node.visit_locks(visit));
        }
        if E::Word::HAS_LOCK {
            visit("slub->slab_lock", &SlabLocks(self.slab_locks(caches)));
        }
        for slot in self.used_slots() {
            visit("slub->slot_lock", &self.slots.at(slot.index()).lock);
        }
    }

    fn slab_locks(&self, caches: &CacheTable) -> LockStats {
        let mut sum = LockStats::default();
        for slot in self.used_slots() {
            for cache in caches.iter() {
                sum += self.cpu(cache.id(), slot).slab_lock_stats();
            }
        }
        for cache in caches.iter() {
            self.nodes(cache.id()).for_each(|node| sum += node.lock_bit_waits());
        }
        sum
    }

    pub(super) fn slot_lock(&self, slot: SlotIndex) -> &CountedLock<()> {
        &self.slots.at(slot.index()).lock
    }

    /// Where `slot` notes the task that holds a slab's lock bit.
    pub(super) fn holder(&self, slot: SlotIndex) -> &Holder {
        &self.slots.at(slot.index()).holder
    }

    pub(super) fn used_slots(&self) -> impl Iterator<Item = SlotIndex> {
        let slots = (0..self.slots.len() as u32).map(SlotIndex);
        slots.filter(|slot| self.slots.at(slot.index()).used.load(Ordering::Acquire))
    }
}
