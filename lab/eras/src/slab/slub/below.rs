//! The slabs below the sheaves of Linux 7.0: no CPU has a slab or a partial list, so each step
//! needs the list of a node.
//!
//! | step | holds of a list lock |
//! |---|---|
//! | fill a sheaf (`refill_objects`) | one for slabs with enough objects, one for what is left |
//! | one object without a sheaf (`___slab_alloc`) | one takes it from the first slab of the list |
//! | free (`__slab_free`) | one if the slab had no free object, or has no object in use now |
//! | new slab | one if not all of its objects are wanted |
//!
//! If the CPU's own node has nothing, slabs come from a node that lists more than `min_partial`. A
//! refill only tries the locks of other nodes. The kernel skips this search in 2.3 % of the cases
//! (`remote_node_defrag_ratio`), at random; here it never does.

use super::cache::SlubCache;
use super::era::{Era, V7_0};
use super::node::Node;
use super::order;
use super::tables::Tables;
use crate::slab::freelist::Freelist;
use crate::slab::one_cache::OneCache;
use crate::slab::records::{Records, SlabChain};
use crate::slab::sheaf_6_18::{Below, KernelSheaf, of_7_0};
use core::mem::MaybeUninit;
use quarry_mm::frame::Pfn;
use quarry_mm::slab::{CacheIn, CacheParams, Late, SlabContext, SlabLayout, SlabStats};
use quarry_sys::broken::Broken;
use quarry_sys::locks::Visit;
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::percpu::{Arrays, Lists, Object};

type Word = <V7_0 as Era>::Word;

/// The sheaves of Linux 7.0, which all caches have (documents 006 and 007).
pub type Sheaf7_0 = KernelSheaf<BareSlabs>;

/// SLUB's slabs without those of CPUs.
pub struct BareSlabs {
    tables: Late<Tables<V7_0>>,
}

impl BareSlabs {
    fn of<'a, P: Arrays + Lists>(&'a self, cache: CacheIn<'a, P>) -> SlubCache<'a, P, V7_0> {
        OneCache::of(&self.tables, cache)
    }
}

impl<P: Lists> SlubCache<'_, P, V7_0> {
    /// Fills the front of `out`; returns the number of objects (`refill_objects`).
    fn fill_sheaf(&self, out: &mut [MaybeUninit<Object>], misses: &mut u64) -> usize {
        let slot = self.context.percpu.current();
        let own = self.own_node(slot);
        let mut taken = own.map_or(0, |own| self.take_from(own, 0, true, out, misses));
        let is_other = |node: &&Node| own.is_none_or(|own| !core::ptr::eq(*node, own));
        for node in self.nodes().filter(is_other) {
            taken += self.take_from(node, self.min_partial(), false, &mut out[taken..], misses);
        }
        while taken < out.len() {
            let Some((slab, list)) = self.new_slab(slot) else { break };
            // The new slab is frozen, and all of its objects are on `list`.
            self.word(slab).take_and_unfreeze(misses);
            taken += self.spread(slab, list, &mut out[taken..]);
        }
        // Without memory, any listed slab will do.
        for node in self.nodes() {
            taken += self.take_from(node, 0, true, &mut out[taken..], misses);
        }
        taken
    }

    /// Fills the front of `out` from a node that lists more than `keep` slabs. Without `waits`,
    /// does nothing if another thread holds the list lock.
    fn take_from(
        &self,
        node: &Node,
        keep: u32,
        waits: bool,
        out: &mut [MaybeUninit<Object>],
        misses: &mut u64,
    ) -> usize {
        if out.is_empty() || node.nr_partial() <= keep {
            return 0;
        }
        let list = if waits { Some(node.list.lock()) } else { node.list.try_lock() };
        let Some(mut list) = list else { return 0 };
        let (links, mut chain, mut free) = (self.links(), SlabChain::default(), 0);
        while free < out.len() as u32
            && let Some(slab) = node.pop_front(&mut list, links)
        {
            free += self.word(slab).set_frozen(true, misses).free();
            chain.push(links, slab);
        }
        drop(list);
        let mut taken = 0;
        while taken < out.len()
            && let Some(slab) = chain.pop(links)
        {
            if let Some(objects) = self.word(slab).take_and_unfreeze(misses) {
                taken += self.spread(slab, self.taken(slab, objects), &mut out[taken..]);
            }
        }
        // Slabs are left if other CPUs have freed objects into the first ones meanwhile.
        self.unfreeze(chain);
        taken
    }

    /// Moves objects of a slab that the caller owns into the front of `out`, and those that do not
    /// fit back into their slab. Returns the number of those that fit.
    fn spread(&self, slab: Pfn, mut list: Freelist, out: &mut [MaybeUninit<Object>]) -> usize {
        let fits = out.len().min(list.count as usize);
        for place in &mut out[..fits] {
            place.write(self.pop(&mut list).expect("the list has as many"));
        }
        if list.count > 0 {
            self.free_list(slab, list);
        }
        fits
    }

    /// Takes one object past the sheaves.
    fn take_one(&self, misses: &mut u64) -> Option<Object> {
        let slot = self.context.percpu.current();
        let own = self.own_node(slot);
        let of_list = |node: &Node, keep, misses: &mut u64| {
            let mut list = (node.nr_partial() > keep).then(|| node.list.lock())?;
            let slab = list.first()?;
            let next = |number| {
                let list = Freelist { head: Some(self.object(slab, number)), count: 2 };
                self.walk(list).nth(1).map(|object| self.number(slab, object))
            };
            let (number, is_full) = self.word(slab).pop_listed(misses, next);
            if is_full {
                node.remove(&mut list, self.links(), slab);
            }
            Some(self.object(slab, number))
        };
        let keep = self.min_partial();
        own.and_then(|own| of_list(own, 0, misses))
            .or_else(|| self.nodes().find_map(|node| of_list(node, keep, misses)))
            .or_else(|| {
                let (slab, list) = self.new_slab(slot)?;
                self.word(slab).take_and_unfreeze(misses);
                let mut out = [MaybeUninit::uninit()];
                self.spread(slab, list, &mut out);
                // SAFETY: a new slab has an object, which `spread` wrote.
                Some(unsafe { out[0].assume_init() })
            })
            .or_else(|| self.nodes().find_map(|node| of_list(node, 0, misses)))
    }
}

impl<P: Arrays + Lists> Below<P> for BareSlabs {
    const NAME: &'static str = V7_0::NAME;
    const NEW: Self = Self { tables: Late::new() };
    const LINKS_THROUGH_OBJECTS: bool = true;
    const BYTES_PER_FRAME: usize = Records::<Word>::BYTES_PER_FRAME;

    fn layout(params: &CacheParams, declared_cpus: u32) -> SlabLayout {
        let order = order::slab_order(params.stride(), declared_cpus, V7_0::FEWER);
        SlabLayout { order, header_bytes: 0 }
    }

    fn capacity(stride: usize, wanted: Option<u16>) -> usize {
        of_7_0(stride, wanted)
    }

    fn create(&self, cache: CacheIn<'_, P>) -> OsResult<()> {
        if cache.objects() > <Word as super::state::SlabWord>::MAX_OBJECTS {
            return Err(OsError(libc::EINVAL));
        }
        self.tables.build(|| Tables::reserve(cache.context))?;
        self.of(cache).take_up();
        Ok(())
    }

    fn alloc(
        &self,
        cache: CacheIn<'_, P>,
        _sheaf: usize,
        out: &mut [MaybeUninit<Object>],
    ) -> usize {
        let (of, mut misses) = (self.of(cache), 0);
        let taken = match out {
            [only] => of.take_one(&mut misses).map_or(0, |object| {
                only.write(object);
                1
            }),
            out => of.fill_sheaf(out, &mut misses),
        };
        of.count_misses(misses);
        taken
    }

    fn free(&self, cache: CacheIn<'_, P>, objects: &[Object]) {
        // SAFETY: the objects were allocated from slabs of the cache, and belong to the caller.
        unsafe { self.of(cache).free_bulk(objects) };
    }

    fn trim(&self, cache: CacheIn<'_, P>) {
        let of = self.of(cache);
        for node in of.nodes() {
            let empty = of.take_empty(node);
            of.discard_chain(empty);
        }
    }

    fn add_stats(&self, cache: CacheIn<'_, P>, stats: &mut SlabStats) {
        let slabs = self.of(cache).stats();
        // The sheaves count their own operations.
        *stats = SlabStats { alloc_slow: 0, free_slow: 0, ..slabs };
    }

    fn visit_free(&self, cache: CacheIn<'_, P>, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        self.of(cache).visit_free(slab, visit);
    }

    fn visit_locks(&self, context: &SlabContext<'_, P>, visit: &mut Visit<'_>) {
        if let Some(tables) = self.tables.get() {
            tables.visit_locks(context.caches, visit);
        }
    }

    fn validate(&self, cache: CacheIn<'_, P>) -> Result<usize, Broken> {
        // Empty slabs are on the nodes' lists, which the limits do not count.
        self.of(cache).validate().map(|()| 0)
    }
}
