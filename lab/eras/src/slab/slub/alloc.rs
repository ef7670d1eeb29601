//! Allocation once the CPU's list is empty.
//!
//! Sources in order: objects that other CPUs freed into the CPU's own slab; a slab of the CPU's
//! partial list; slabs of its node's list, until the CPU's partial list is half full; slabs of
//! another node that lists more than `min_partial`; a new slab; without memory, any listed slab.

use super::cache::{SlubCache, guard_of};
use super::cpu::count;
use super::era::Era;
use super::node::Node;
use super::slow_path::SlowPath;
use super::state::SlabWord;
use crate::slab::freelist::Freelist;
use crate::slab::one_cache::{GUARD, LIST};
use quarry_mm::frame::Pfn;
use quarry_sys::percpu::{Lists, Object, SlotIndex};
use quarry_sys::primitive::Ordering;

/// Times the slow path starts again after its thread has moved to another CPU.
const TRIES: u32 = 4;

impl<P: Lists, E: Era> SlubCache<'_, P, E>
where
    E::Word: SlowPath<P, E>,
{
    /// Takes an object from any source. `None` if there is no memory.
    pub(super) fn alloc_slow(&self) -> Option<Object> {
        let mut misses = 0;
        let mut slot = self.context.percpu.current();
        let object = self.alloc_counting(&mut slot, &mut misses);
        count(&self.cpu(slot).misses, misses);
        object
    }

    fn alloc_counting(&self, slot: &mut SlotIndex, misses: &mut u64) -> Option<Object> {
        for _ in 0..TRIES {
            // SAFETY: cells of this policy are lists, and objects on them are linked.
            if let Some(object) = unsafe { self.context.percpu.list_pop(self.array()) } {
                return Some(object);
            }
            *slot = self.context.percpu.current();
            let (guard, Some(slab)) = self.guard(*slot) else { break };
            if let Some(list) = self.refill(*slot, slab, misses) {
                count(&self.cpu(*slot).alloc_slow, 1);
                return self.fill(*slot, slab, list);
            }
            if self.store(*slot, GUARD, guard, 0) {
                // This thread owns the slab now, and only the owner may unfreeze it.
                count(&self.cpu(*slot).deactivations, 1);
                if let Some(chain) = E::Word::deactivate(self, slab, misses) {
                    count(&self.cpu(*slot).alloc_slow, 1);
                    return self.activate(*slot, slab, self.taken(slab, chain), misses);
                }
                break;
            }
        }
        count(&self.cpu(*slot).alloc_slow, 1);
        let (slab, list) = self.acquire(*slot, misses)?;
        self.activate(*slot, slab, list, misses)
    }

    /// Takes the objects that were freed into the slab that a guard named.
    fn refill(&self, slot: SlotIndex, slab: Pfn, misses: &mut u64) -> Option<Freelist> {
        let chain = E::Word::refill(self, slab, misses)?;
        count(&self.cpu(slot).refills, 1);
        Some(self.taken(slab, chain))
    }

    /// Returns the first object. The others go into the slot's cell if that is empty and this
    /// thread still runs on the slot, else back into their slab.
    fn fill(&self, slot: SlotIndex, slab: Pfn, mut list: Freelist) -> Option<Object> {
        let object = self.pop(&mut list);
        if list.count > 0 && !self.store(slot, LIST, 0, list.word()) {
            self.free_list(slab, list);
        }
        object
    }

    /// Makes a frozen slab of the caller the slab of the slot's cell. `list`, objects taken from
    /// this slab, becomes the cell's list.
    fn activate(
        &self,
        slot: SlotIndex,
        slab: Pfn,
        mut list: Freelist,
        misses: &mut u64,
    ) -> Option<Object> {
        if self.store(slot, GUARD, 0, guard_of(slab)) {
            return self.fill(slot, slab, list);
        }
        // Another thread filled this slot's cell first, or this thread moved to another CPU.
        let object = self.pop(&mut list);
        self.free_list(slab, list);
        E::Word::let_go(self, slab, misses);
        object
    }

    /// A frozen slab that the caller owns, and objects from it.
    fn acquire(&self, slot: SlotIndex, misses: &mut u64) -> Option<(Pfn, Freelist)> {
        while let Some(slab) = self.pop_cpu_partial(slot) {
            if let Some(chain) = E::Word::deactivate(self, slab, misses) {
                return Some((slab, self.taken(slab, chain)));
            }
        }
        let own = self.own_node(slot);
        own.and_then(|own| E::Word::take_partial(self, slot, own, 0, misses))
            .or_else(|| self.take_remote(slot, own, self.min_partial(), misses))
            .or_else(|| self.new_slab(slot))
            .or_else(|| self.take_remote(slot, own, 0, misses))
    }

    /// Takes a slab from the first other node that has more than `keep` slabs on its list.
    fn take_remote(
        &self,
        slot: SlotIndex,
        own: Option<&Node>,
        keep: u32,
        misses: &mut u64,
    ) -> Option<(Pfn, Freelist)> {
        self.nodes()
            .filter(|node| own.is_none_or(|own| !core::ptr::eq(*node, own)))
            .find_map(|node| E::Word::take_partial(self, slot, node, keep, misses))
    }

    fn pop_cpu_partial(&self, slot: SlotIndex) -> Option<Pfn> {
        let cpu = self.cpu(slot);
        cpu.first()?;
        let held = self.tables.slot_lock(slot).try_lock()?;
        cpu.pop(&held, self.links())
    }

    pub(super) fn new_slab(&self, slot: SlotIndex) -> Option<(Pfn, Freelist)> {
        let (context, cache) = (self.context, self.cache);
        let place = (slot, context.zones.node_of(slot));
        // Linking writes to every page of the slab.
        let slab = self.tables.words.new_slab(context, cache, place, true)?;
        self.word(slab).start(self.tag(), cache.objects());
        context.zones.frames().set_kind(slab, cache.order().frames(), cache.id().kind());
        self.node_of(slab).slabs_allocated.fetch_add(1, Ordering::Relaxed);
        let objects = (0..cache.objects()).map(|number| self.object(slab, number));
        // SAFETY: the slab is new: all its objects are free, and only this thread has their
        // addresses.
        Some((slab, unsafe { Freelist::linked(objects) }))
    }
}
