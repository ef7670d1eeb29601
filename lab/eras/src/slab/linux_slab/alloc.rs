//! Allocation when a CPU's array is empty: `cache_alloc_refill`, `cache_grow` and `fallback_alloc`
//! of Linux 2.6.36.

use super::cache::SlabCache;
use super::tuning::MOST_LIMIT;
use core::mem::MaybeUninit;
use quarry_mm::frame::{FRAME_BYTES, NodeId, Pfn};
use quarry_mm::slab::written;
use quarry_sys::percpu::{Arrays, Object, SlotIndex};

impl<P: Arrays> SlabCache<'_, P> {
    /// Takes an object from the node or a new slab, and a batch for the running CPU's array.
    pub(super) fn alloc_slow(&self) -> Option<Object> {
        if let Some(object) = self.context.percpu.pop_unregistered(self.array()) {
            return Some(object);
        }
        let (slot, node) = self.here();
        self.reap_if_due(slot, node);
        // Even if the array has no room, the request itself needs one object.
        let room = self.demand_room(slot) + 1;
        let batch = self.tuning().refill(self.is_touched(slot)).min(room);
        if let Some(object) = self.refill(slot, node, batch, None) {
            return Some(object);
        }
        let Some(slab) = self.new_slab(slot, node) else { return self.take_elsewhere(node) };
        let home = self.node_of_slab(slab);
        let batch = if home == node { batch } else { 1 };
        self.refill(slot, home, batch, Some(slab))
    }

    /// Under the list lock, adds the slab `new`, if any, to a node and takes up to `batch` objects
    /// from the node. Returns the last object; the others enter the running CPU's array.
    fn refill(
        &self,
        slot: SlotIndex,
        node: NodeId,
        batch: usize,
        new: Option<Pfn>,
    ) -> Option<Object> {
        let mut buffer = [MaybeUninit::uninit(); MOST_LIMIT];
        self.with_lists(node, |held| {
            if let Some(new) = new {
                held.add(new);
            }
            let taken = held.refill(&mut buffer[..batch]);
            // SAFETY: refill wrote the first `taken` elements.
            let (object, rest) = unsafe { written(&buffer, taken) }.split_last()?;
            held.lists.exchanges.alloc_slow += 1;
            if self.context.percpu.push_batch(self.array(), rest) {
                held.lists.exchanges.batched_in += rest.len() as u64;
                self.set_touched(slot, true);
            } else {
                // The thread has moved to a CPU whose array has less room.
                held.give(rest);
            }
            Some(*object)
        })
    }

    fn take_elsewhere(&self, own: NodeId) -> Option<Object> {
        let others = self.tables.node_ids().filter(|node| *node != own);
        let mut one = [MaybeUninit::uninit()];
        others.into_iter().find_map(|node| {
            self.with_lists(node, |held| {
                let taken = held.take(&mut one);
                held.lists.exchanges.alloc_slow += taken as u64;
                // SAFETY: take wrote the first `taken` elements.
                unsafe { written(&one, taken) }.first().copied()
            })
        })
    }

    /// A new slab with all objects free. Its memory may be of another node than wanted.
    fn new_slab(&self, slot: SlotIndex, node: NodeId) -> Option<Pfn> {
        let (context, cache) = (self.context, self.cache);
        let fills_pages = cache.stride() <= FRAME_BYTES;
        let slab = self.tables.records.new_slab(context, cache, (slot, node), fills_pages)?;
        self.slabs().at(slab).start();
        context.zones.frames().set_kind(slab, cache.order().frames(), cache.id().kind());
        Some(slab)
    }
}
