//! Where objects go that do not belong to the CPU's own slab, and slabs that a CPU lets go of.

use super::cache::{SlubCache, guard_of};
use super::cpu::count;
use super::era::Era;
use super::freelist::{self, Freelist};
use super::node::{Node, PartialList, SlabChain};
use super::order;
use super::page_word::{FreedChain, Put};
use crate::frame::{Kind, Links, Order, Pfn};
use crate::slab::context::MAX_BATCH;
use crate::slab::misuse::not_in_use;
use quarry_sys::lock::Guard;
use quarry_sys::percpu::{Lists, Object, Push, SlotIndex};
use quarry_sys::primitive::Ordering;

impl<P: Lists, E: Era> SlubCache<'_, P, E> {
    /// Gives objects of one slab back to it: `head` to `tail`, linked, `count` of them.
    ///
    /// # Safety
    /// They are allocated objects of this cache in the slab `slab`, and their user has given them
    /// up.
    pub(super) unsafe fn free_chain(&self, slab: Pfn, head: Object, tail: Object, count: u32) {
        let chain = self.freed(slab, head, count);
        let node = self.node_of(slab);
        let mut list = (!E::LOCKLESS).then(|| node.list.lock());
        let mut misses = 0;
        let mut put = self.put(slab, chain, tail, list.is_some(), &mut misses);
        if put == Put::NeedsListLock {
            list = Some(node.list.lock());
            put = self.put(slab, chain, tail, true, &mut misses);
        }
        let slot = self.context.percpu.current();
        super::cpu::count(&self.cpu(slot).cmpxchg_fails, misses);
        match (put, list) {
            (Put::ToFrozen | Put::ToPartial, _) => {}
            (Put::Froze, list) => {
                drop(list);
                self.park(slab);
            }
            (Put::Emptied, Some(list)) => self.emptied(slab, node, list),
            (Put::NotInUse | Put::WrongCache, list) => {
                drop(list);
                not_in_use(self.cache, head);
            }
            (Put::Emptied | Put::NeedsListLock, _) => unreachable!("the list lock was held"),
        }
    }

    fn put(
        &self,
        slab: Pfn,
        chain: FreedChain,
        tail: Object,
        list_locked: bool,
        misses: &mut u64,
    ) -> Put {
        self.word(slab).put(self.tag(), chain, list_locked, misses, |next| {
            // SAFETY: the object is being freed and not used (`free_chain`'s promise).
            unsafe { self.link(slab, tail, next) };
        })
    }

    /// A slab of the node's list whose last object came back: gone if the list has enough.
    fn emptied(&self, slab: Pfn, node: &Node, mut list: Guard<'_, PartialList>) {
        if node.nr_partial() >= order::min_partial(self.cache.stride()) {
            node.remove(&mut list, self.links(), slab);
            drop(list);
            let mut chain = SlabChain::default();
            chain.push(self.links(), slab);
            self.discard(chain);
        }
    }

    /// Gives a list that was taken from a slab back to it.
    pub(super) fn free_list(&self, slab: Pfn, list: Freelist) {
        if let (Some(head), Some(tail)) = (list.head, self.walk(list).last()) {
            // SAFETY: the list is ours, its objects count as in use and lie in `slab`.
            unsafe { self.free_chain(slab, head, tail, list.count) };
        }
    }

    /// Gives a list of objects of any slabs back: what a CPU's list held.
    pub(super) fn free_mixed(&self, list: Freelist) {
        let mut chain: Option<(Pfn, Object, Object, u32)> = None;
        for object in self.walk(list) {
            let slab = self.slab_of(object);
            chain = match chain {
                Some((of, head, _, count)) if of == slab => Some((of, head, object, count + 1)),
                other => {
                    if let Some((of, head, tail, count)) = other {
                        // SAFETY: the list is ours, its objects count as in use; these lie in `of`
                        // and are linked in this order.
                        unsafe { self.free_chain(of, head, tail, count) };
                    }
                    Some((slab, object, object, 1))
                }
            };
        }
        if let Some((of, head, tail, count)) = chain {
            // SAFETY: as above.
            unsafe { self.free_chain(of, head, tail, count) };
        }
    }

    /// Gives objects back: those of the CPU's slab to its list, of the others those of one slab in
    /// one step.
    ///
    /// # Safety
    /// As [`SlabPolicy::free_bulk`](crate::slab::SlabPolicy::free_bulk).
    pub(super) unsafe fn free_bulk(&self, objects: &[Object]) {
        for piece in objects.chunks(MAX_BATCH) {
            let mut left = u64::MAX >> (64 - piece.len());
            while left != 0 {
                let slab = self.slab_of(piece[left.trailing_zeros() as usize]);
                let own = self.guard(self.context.percpu.current()).1 == Some(slab);
                let mut chain: Option<(Object, Object, u32)> = None;
                for (index, &object) in piece.iter().enumerate() {
                    if left >> index & 1 == 0 || self.slab_of(object) != slab {
                        continue;
                    }
                    left &= !(1 << index);
                    if own && self.push_to_cpu(slab, object) {
                        continue;
                    }
                    if let Some((_, tail, _)) = chain {
                        // SAFETY: the caller gives both objects up.
                        unsafe { freelist::set_next(tail, Some(object)) };
                    }
                    chain =
                        Some(chain.map_or((object, object, 1), |(head, _, count)| {
                            (head, object, count + 1)
                        }));
                }
                if let Some((head, tail, count)) = chain {
                    self.count_free_slow(count);
                    // SAFETY: the caller's promise; just linked, all in `slab`.
                    unsafe { self.free_chain(slab, head, tail, count) };
                }
            }
        }
    }

    /// Puts an object that is being freed onto the CPU's list, if `slab` is still the CPU's.
    fn push_to_cpu(&self, slab: Pfn, object: Object) -> bool {
        // SAFETY: cells of this policy are lists; the object is being freed.
        match unsafe { self.context.percpu.list_push(self.array(), guard_of(slab), object) } {
            Push::Stored => true,
            Push::Refused => false,
            Push::Duplicate => not_in_use(self.cache, object),
        }
    }

    /// Counts objects that were freed past the CPU's list.
    pub(super) fn count_free_slow(&self, objects: u32) {
        let slot = self.context.percpu.current();
        count(&self.cpu(slot).free_slow, u64::from(objects));
    }

    /// Puts a frozen slab of ours onto the running CPU's partial list; a list that holds too many
    /// free objects already goes to the node first.
    pub(super) fn park(&self, slab: Pfn) {
        let slot = self.context.percpu.current();
        let cpu = self.cpu(slot);
        let Some(held) = self.tables.slot_lock(slot).try_lock() else {
            let mut chain = SlabChain::default();
            chain.push(self.links(), slab);
            return self.unfreeze(chain);
        };
        let limit = order::cpu_partial(self.cache.stride());
        let overflow = cpu.take_above(&held, limit);
        cpu.push(&held, self.links(), slab, self.word(slab).state().free());
        drop(held);
        if let Some(chain) = overflow {
            self.unfreeze(chain);
        }
    }

    /// Puts frozen slabs of ours onto a slot's partial list, whatever it holds.
    pub(super) fn park_chain(&self, slot: SlotIndex, mut chain: SlabChain) {
        if chain.head.get().is_none() {
            return;
        }
        match self.tables.slot_lock(slot).try_lock() {
            Some(held) => {
                while let Some(slab) = chain.pop(self.links()) {
                    let free = self.word(slab).state().free();
                    self.cpu(slot).push(&held, self.links(), slab, free);
                }
            }
            None => self.unfreeze(chain),
        }
    }

    /// Hands frozen slabs of ours to their nodes: those with free objects go onto the list, those
    /// without onto none, empty ones back to the page allocator if the list has enough.
    pub(super) fn unfreeze(&self, mut chain: SlabChain) {
        let links = self.links();
        let mut empty = SlabChain::default();
        let mut misses = 0;
        let mut next = chain.pop(links);
        while let Some(first) = next {
            let id = self.node_id_of(first);
            let node = self.tables.node(self.cache.id(), id);
            let mut list = node.list.lock();
            while let Some(slab) = next.filter(|slab| self.node_id_of(*slab) == id) {
                next = chain.pop(links);
                let state = self.word(slab).unfreeze(&mut misses);
                let enough = node.nr_partial() >= order::min_partial(self.cache.stride());
                if state.inuse() == 0 && enough {
                    empty.push(links, slab);
                } else if state.head().is_some() {
                    node.push_back(&mut list, links, slab);
                }
            }
        }
        count(&self.cpu(self.context.percpu.current()).cmpxchg_fails, misses);
        self.discard(empty);
    }

    /// Returns slabs without objects in use, not frozen and on no list, to the page allocator.
    pub(super) fn discard(&self, mut chain: SlabChain) {
        let (context, order) = (self.context, self.cache.order());
        let mut pages = [(Pfn::NONE, Order::ZERO); MAX_BATCH];
        let mut filled = 0;
        while let Some(slab) = chain.pop(self.links()) {
            self.node_of(slab).slabs_freed.fetch_add(1, Ordering::Relaxed);
            self.word(slab).end();
            context.pages.frames().set_kind(slab, order.frames(), Kind::NONE);
            pages[filled] = (slab, order);
            filled += 1;
            if filled == pages.len() {
                context.pages.free_list(context.percpu.current(), &pages);
                filled = 0;
            }
        }
        if filled > 0 {
            context.pages.free_list(context.percpu.current(), &pages[..filled]);
        }
    }

    /// Takes everything from slots and returns what is empty.
    pub(super) fn shrink(&self) {
        self.context.percpu.drain_lists(self.array(), &mut |guard, head, nr| {
            self.free_mixed(Freelist { head, count: nr as u32 });
            if guard != 0 {
                let mut chain = SlabChain::default();
                chain.push(self.links(), Pfn((guard - 1) as u32));
                self.unfreeze(chain);
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
            self.discard(empty);
        }
    }

    fn take_empty(&self, node: &Node) -> SlabChain {
        let links = self.links();
        let mut list = node.list.lock();
        let mut empty = SlabChain::default();
        let mut next = list.first();
        while let Some(slab) = next {
            next = links.next(slab).get();
            if self.word(slab).state().inuse() == 0 {
                node.remove(&mut list, links, slab);
                empty.push(links, slab);
            }
        }
        empty
    }
}
