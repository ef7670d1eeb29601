//! Freeing objects of slabs other than the CPU's own, and slabs that a CPU lets go.

use super::cache::{SlubCache, guard_of};
use super::cpu::count;
use super::era::Era;
use super::node::Node;
use super::slow_path::SlowPath;
use super::state::Linked;
use crate::slab::freelist::{Chain, Freelist};
use crate::slab::one_cache::is_stored;
use crate::slab::records::SlabChain;
use quarry_mm::frame::{Links, Pfn};
use quarry_mm::slab::MAX_BATCH;
use quarry_sys::percpu::{Lists, Object};

impl<P: Lists, E: Era> SlubCache<'_, P, E>
where
    E::Word: SlowPath<P, E>,
{
    /// Gives the objects of a chain, if there are any, back to their slab.
    ///
    /// # Safety
    /// These are allocated objects of this cache in the slab `slab`, and their user has given them
    /// up.
    pub(super) unsafe fn free_chain(&self, slab: Pfn, chain: &Chain) {
        if let (Some(head), Some(tail)) = (chain.list.head, chain.tail) {
            let mut misses = 0;
            let linked = Linked { first: self.number(slab, head), count: chain.count() };
            // SAFETY: the caller's promise is passed on.
            unsafe { E::Word::free_chain(self, slab, (linked, tail), &mut misses) };
            self.count_misses(misses);
        }
    }

    pub(super) fn count_misses(&self, misses: u64) {
        count(&self.cpu(self.context.percpu.current()).misses, misses);
    }

    pub(super) fn free_list(&self, slab: Pfn, list: Freelist) {
        let tail = self.walk(list).last();
        // SAFETY: the list is ours, its objects count as in use and lie in `slab`.
        unsafe { self.free_chain(slab, &Chain { list, tail }) };
    }

    /// Gives a CPU's list back; its objects may be of several slabs.
    pub(super) fn free_mixed(&self, list: Freelist) {
        let (mut slab, mut alike) = (Pfn::NONE, Chain::default());
        let put_back = |slab: Pfn, alike: &mut Chain| {
            // SAFETY: the caller gave us the list, whose objects count as in use, and those in
            // `alike` lie in `slab`.
            unsafe { self.free_chain(slab, &alike.take()) };
        };
        for object in self.walk(list) {
            let of = self.slab_of(object);
            if of != slab {
                put_back(slab, &mut alike);
                slab = of;
            }
            // SAFETY: the object is of the list, and the walk has passed it.
            unsafe { alike.push_back(object) };
        }
        put_back(slab, &mut alike);
    }

    /// Gives objects back: objects of the CPU's slab to its list, the others to their slabs, in one
    /// step for each slab.
    ///
    /// # Safety
    /// Same as for [`SlabPolicy::free_bulk`](quarry_mm::slab::SlabPolicy::free_bulk).
    pub(super) unsafe fn free_bulk(&self, objects: &[Object]) {
        for piece in objects.chunks(MAX_BATCH) {
            let mut left = u64::MAX >> (64 - piece.len());
            while left != 0 {
                let slab = self.slab_of(piece[left.trailing_zeros() as usize]);
                let own = self.guard(self.context.percpu.current()).1 == Some(slab);
                let mut chain = Chain::default();
                for (index, &object) in piece.iter().enumerate() {
                    if left >> index & 1 == 0 || self.slab_of(object) != slab {
                        continue;
                    }
                    left &= !(1 << index);
                    if !(own && self.push_to_cpu(slab, object)) {
                        // SAFETY: the caller gives the objects up.
                        unsafe { chain.push_back(object) };
                    }
                }
                if chain.count() > 0 {
                    self.count_free_slow(chain.count());
                    // SAFETY: the caller gives up the chain's objects, which all lie in `slab`.
                    unsafe { self.free_chain(slab, &chain) };
                }
            }
        }
    }

    /// Puts an object that is being freed onto the CPU's list, if `slab` is still the CPU's.
    fn push_to_cpu(&self, slab: Pfn, object: Object) -> bool {
        // SAFETY: cells of this policy are lists; the object is being freed.
        let push = unsafe { self.context.percpu.list_push(self.array(), guard_of(slab), object) };
        is_stored(self.cache, object, push)
    }

    /// Counts objects that were freed without the CPU's list.
    pub(super) fn count_free_slow(&self, objects: u32) {
        let slot = self.context.percpu.current();
        count(&self.cpu(slot).free_slow, u64::from(objects));
    }

    pub(super) fn unfreeze(&self, chain: SlabChain) {
        let mut misses = 0;
        E::Word::unfreeze_chain(self, chain, &mut misses);
        self.count_misses(misses);
    }

    /// Takes everything out of the slots, and gives empty slabs back.
    pub(super) fn shrink(&self) {
        self.context.percpu.drain_lists(self.array(), &mut |guard, head, nr| {
            self.free_mixed(Freelist { head, count: nr as u32 });
            if guard != 0 {
                self.unfreeze(SlabChain::of(self.links(), Pfn((guard - 1) as u32)));
            }
        });
        for slot in self.tables.used_slots() {
            if self.cpu(slot).first().is_none() {
                continue;
            }
            let held = self.tables.slot_lock(slot).lock();
            let chain = self.cpu(slot).take_all(&held);
            drop(held);
            self.unfreeze(chain);
        }
        for node in self.nodes() {
            let empty = self.take_empty(node);
            self.discard_chain(empty);
        }
    }

    pub(super) fn take_empty(&self, node: &Node) -> SlabChain {
        let links = self.links();
        let mut list = node.list.lock();
        let mut empty = SlabChain::default();
        let mut next = list.first();
        while let Some(slab) = next {
            next = links.next(slab).get();
            if self.state(slab).inuse == 0 {
                node.remove(&mut list, links, slab);
                empty.push(links, slab);
            }
        }
        empty
    }
}
