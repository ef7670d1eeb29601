//! The slow paths of Linux 2.6.29 to 3.0, which hold a slab's lock bit. While a thread holds the
//! bit, it takes the node's list lock only to put a slab onto the list or take it off. A thread
//! that takes a slab from the list skips slabs whose bit another thread holds.

use super::cache::SlubCache;
use super::cpu::count;
use super::era::Era;
use super::lock_word::{HeldSlab, LockWord};
use super::node::Node;
use super::slow_path::SlowPath;
use super::state::Linked;
use crate::slab::freelist::Freelist;
use crate::slab::records::SlabChain;
use quarry_mm::frame::{Links, Pfn};
use quarry_mm::slab::not_in_use;
use quarry_sys::percpu::{Lists, Object, SlotIndex};
use quarry_sys::primitive::Ordering;
use quarry_sys::report::entered_again;

impl<P: Lists, E: Era<Word = LockWord>> SlowPath<P, E> for LockWord {
    fn refill(of: &SlubCache<'_, P, E>, slab: Pfn, misses: &mut u64) -> Option<Linked> {
        let mut held = lock(of, slab, misses);
        // Since the guard was read, the slab may have been given back and may now be another
        // cache's.
        let is_own = of.context.zones.frames().kind(slab) == of.cache.id().kind();
        let state = held.state(of.cache.objects());
        if !is_own || !state.frozen {
            return None;
        }
        held.set(state.with_all_taken());
        state.chain()
    }

    fn deactivate(of: &SlubCache<'_, P, E>, slab: Pfn, misses: &mut u64) -> Option<Linked> {
        let mut held = lock(of, slab, misses);
        let state = held.state(of.cache.objects());
        held.set(state.with_all_taken().with_frozen(state.head.is_some()));
        state.chain()
    }

    /// `unfreeze_slab` of Linux 2.6.29: what [`unfreeze_chain`](Self::unfreeze_chain) does, for one
    /// slab.
    fn let_go(of: &SlubCache<'_, P, E>, slab: Pfn, misses: &mut u64) {
        let node = of.node_of(slab);
        let mut held = lock(of, slab, misses);
        let state = held.state(of.cache.objects()).with_frozen(false);
        held.set(state);
        if state.inuse == 0 && !of.keeps_empty(node) {
            drop(held);
            of.discard(slab);
        } else if state.head.is_some() {
            node.push_back(&mut node.list.lock(), of.links(), slab);
        }
    }

    fn take_partial(
        of: &SlubCache<'_, P, E>,
        slot: SlotIndex,
        node: &Node,
        keep: u32,
        misses: &mut u64,
    ) -> Option<(Pfn, Freelist)> {
        let links = of.links();
        if node.nr_partial() <= keep {
            return None;
        }
        let mut list = node.list.lock();
        let mut next = list.first();
        while let Some(slab) = next {
            next = links.next(slab).get();
            let Some(mut held) = of.word(slab).try_lock() else {
                *misses += 1;
                continue;
            };
            count(&of.cpu(slot).slab_locks, 1);
            held = held.noted_in(of.tables.holder(slot));
            node.remove(&mut list, links, slab);
            drop(list);
            let state = held.state(of.cache.objects());
            held.set(state.with_all_taken().with_frozen(true));
            let chain = state.chain().expect("slabs on a node's list have free objects");
            return Some((slab, of.taken(slab, chain)));
        }
        None
    }

    unsafe fn free_chain(
        of: &SlubCache<'_, P, E>,
        slab: Pfn,
        (chain, tail): (Linked, Object),
        misses: &mut u64,
    ) {
        let node = of.node_of(slab);
        let mut held = lock(of, slab, misses);
        let old = held.state(of.cache.objects());
        let is_own = of.context.zones.frames().kind(slab) == of.cache.id().kind();
        if !is_own || old.contradicts(chain) {
            drop(held);
            not_in_use(of.cache, of.object(slab, chain.first));
        }
        // SAFETY: the object is being freed and not used (the caller's promise).
        unsafe { of.link(slab, tail, old.head) };
        let new = old.with_freed(chain);
        held.set(new);
        if new.frozen {
            return;
        }
        let was_full = old.head.is_none();
        if new.inuse == 0 {
            if !was_full {
                node.remove(&mut node.list.lock(), of.links(), slab);
            }
            drop(held);
            of.discard(slab);
        } else if was_full {
            node.push_back(&mut node.list.lock(), of.links(), slab);
        }
    }

    fn unfreeze_chain(of: &SlubCache<'_, P, E>, mut chain: SlabChain, misses: &mut u64) {
        while let Some(slab) = chain.pop(of.links()) {
            Self::let_go(of, slab, misses);
        }
    }
}

/// Takes the lock bit of a slab. Ends the process with a message if the task would wait for itself:
/// a signal handler that allocates while it interrupts this slow path.
fn lock<'a, P: Lists, E: Era<Word = LockWord>>(
    of: &SlubCache<'a, P, E>,
    slab: Pfn,
    misses: &mut u64,
) -> HeldSlab<'a> {
    let slot = of.context.percpu.current();
    count(&of.cpu(slot).slab_locks, 1);
    let word = of.word(slab);
    let held = word.try_lock().unwrap_or_else(|| {
        *misses += 1;
        if of.tables.used_slots().any(|slot| of.tables.holder(slot).is_us()) {
            entered_again();
        }
        let (held, waited_ns) = word.wait();
        of.node_of(slab).lock_bit_wait_ns.fetch_add(waited_ns, Ordering::Relaxed);
        held
    });
    held.noted_in(of.tables.holder(slot))
}
