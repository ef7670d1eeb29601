//! The slow paths of Linux 3.1 and later. A thread takes the node's list lock only to put a slab
//! onto the list or take it off.

use super::cache::SlubCache;
use super::era::Era;
use super::node::Node;
use super::order;
use super::page_word::{PageWord, Put};
use super::slow_path::SlowPath;
use super::state::Linked;
use crate::slab::freelist::Freelist;
use crate::slab::records::SlabChain;
use quarry_mm::frame::Pfn;
use quarry_mm::slab::not_in_use;
use quarry_sys::percpu::{Lists, Object, SlotIndex};

impl<P: Lists, E: Era<Word = PageWord>> SlowPath<P, E> for PageWord {
    fn refill(of: &SlubCache<'_, P, E>, slab: Pfn, misses: &mut u64) -> Option<Linked> {
        of.word(slab).take_frozen(of.tag(), misses)
    }

    fn deactivate(of: &SlubCache<'_, P, E>, slab: Pfn, misses: &mut u64) -> Option<Linked> {
        of.word(slab).take_or_unfreeze(misses)
    }

    fn let_go(of: &SlubCache<'_, P, E>, slab: Pfn, misses: &mut u64) {
        if !of.word(slab).unfreeze_if_full(misses) {
            park(of, slab, misses);
        }
    }

    /// Besides the slab that it returns, takes slabs for the slot's partial list until that list is
    /// half full, all in one hold of the list lock.
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
        let slab = node.pop_front(&mut list, links)?;
        let chain = of.word(slab).freeze_and_take(misses);
        let limit = order::cpu_partial(of.cache.stride()) / 2;
        let mut available = chain.count;
        let mut more = SlabChain::default();
        while of.parks()
            && available <= limit
            && let Some(slab) = node.pop_front(&mut list, links)
        {
            available += of.word(slab).set_frozen(true, misses).free();
            more.push(links, slab);
        }
        drop(list);
        park_chain(of, slot, more, misses);
        Some((slab, of.taken(slab, chain)))
    }

    unsafe fn free_chain(
        of: &SlubCache<'_, P, E>,
        slab: Pfn,
        (chain, tail): (Linked, Object),
        misses: &mut u64,
    ) {
        let node = of.node_of(slab);
        let mut put = |list_locked| {
            let ways = (of.parks(), list_locked);
            of.word(slab).put(of.tag(), chain, ways, misses, |next| {
                // SAFETY: the object is being freed and not used (the caller's promise).
                unsafe { of.link(slab, tail, next) };
            })
        };
        let mut done = put(false);
        let mut list = None;
        if done == Put::NeedsListLock {
            list = Some(node.list.lock());
            done = put(true);
        }
        let list = match (done, list) {
            (Put::ToFrozen | Put::ToPartial, _) => return,
            (Put::Froze, list) => {
                drop(list);
                return park(of, slab, misses);
            }
            (Put::NotInUse, list) => {
                drop(list);
                not_in_use(of.cache, of.object(slab, chain.first));
            }
            (_, list) => list,
        };
        let mut list = list.expect("only under the list lock does a slab come or go");
        let is_empty = matches!(done, Put::Emptied(_));
        let was_listed = done == Put::Emptied(true);
        if is_empty && !of.keeps_empty(node) {
            if was_listed {
                node.remove(&mut list, of.links(), slab);
            }
            drop(list);
            of.discard(slab);
        } else if !was_listed {
            node.push_back(&mut list, of.links(), slab);
        }
    }

    fn unfreeze_chain(of: &SlubCache<'_, P, E>, mut chain: SlabChain, misses: &mut u64) {
        let links = of.links();
        let mut empty = SlabChain::default();
        let mut next = chain.pop(links);
        while let Some(first) = next {
            let id = of.node_of_slab(first);
            let node = of.tables.node(of.cache.id(), id);
            let mut list = node.list.lock();
            while let Some(slab) = next.filter(|slab| of.node_of_slab(*slab) == id) {
                next = chain.pop(links);
                let state = of.word(slab).set_frozen(false, misses);
                if state.inuse == 0 && !of.keeps_empty(node) {
                    empty.push(links, slab);
                } else if state.head.is_some() {
                    node.push_back(&mut list, links, slab);
                }
            }
        }
        of.discard_chain(empty);
    }
}

/// Puts a frozen slab of the caller onto the running CPU's partial list. If that list holds too
/// many free objects, its slabs go to the node first. Without partial lists, or if another
/// thread holds the slot's lock, the slab goes to the node.
fn park<P: Lists, E: Era<Word = PageWord>>(of: &SlubCache<'_, P, E>, slab: Pfn, misses: &mut u64) {
    let slot = of.context.percpu.current();
    let cpu = of.cpu(slot);
    let held = if of.parks() { of.tables.slot_lock(slot).try_lock() } else { None };
    let Some(held) = held else {
        return PageWord::unfreeze_chain(of, SlabChain::of(of.links(), slab), misses);
    };
    let overflow = cpu.take_above(&held, order::cpu_partial(of.cache.stride()));
    cpu.push(&held, of.links(), slab, of.state(slab).free());
    drop(held);
    if let Some(chain) = overflow {
        PageWord::unfreeze_chain(of, chain, misses);
    }
}

fn park_chain<P: Lists, E: Era<Word = PageWord>>(
    of: &SlubCache<'_, P, E>,
    slot: SlotIndex,
    mut chain: SlabChain,
    misses: &mut u64,
) {
    if chain.head.get().is_none() {
        return;
    }
    match of.tables.slot_lock(slot).try_lock() {
        Some(held) => {
            while let Some(slab) = chain.pop(of.links()) {
                let free = of.state(slab).free();
                of.cpu(slot).push(&held, of.links(), slab, free);
            }
        }
        None => PageWord::unfreeze_chain(of, chain, misses),
    }
}
