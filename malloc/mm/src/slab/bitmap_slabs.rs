//! Slabs that record their free objects as bits, for policies that move objects in batches.
//!
//! A bit is set iff the object is free *in the slab*: neither in use, nor in a slot, nor in a barn.
//! A free into the slab only sets the bit. It touches no cold object, and finds each double free.
//!
//! The descriptor of a slab lies in the link words of its first four frames (a slab has at least
//! order 2): `link[0]` is the next slab, `link[1]` the previous one, `link[2..4]` one word. If a
//! slab has at most 64 objects, this word is the bits. Else it is
//! `{digest of the bits : 53 | free objects : 11}`, and the bits lie before the first object; or
//! the slab is *folded* (see `word.rs`), until the first change of its bits.
//!
//! A program that writes past the end of the memory before this slab could overwrite the bits, and
//! then an object could get two owners. The slab's unused bytes lie before the bits to absorb short
//! overruns. The bits are compared with their digest when objects are taken, when a free finds its
//! bit set, and when the slab is given back.
//!
//! A slab with free objects is on one of five lists: 0..=3 by how many quarters of its objects are
//! free, 4 if all are (*empty*). Requests take from the fullest slab, so that others become empty.
//!
//! Equations: `free(slab) = popcount(bits)`, `digest(slab) = sum of term(word i of the bits, i)`,
//! `list(slab) = floor(4 * free / objects)` for `free > 0`, no list for `free = 0`,
//! `length(list) = slabs on it`, `nr_free = sum of free(slab)`.
//!
//! If CPUs wait for each other, groups of them get lists of their own, a *shard*; each node has one
//! from the start: see `lists.rs`.

mod lists;
mod slab;
mod sparse;
mod word;

use super::buffer::written;
use super::cache::{LOOSE_ORDER, SlabLayout, cache_of, loose_mark};
use super::context::{CacheIn, PIECE};
use super::params::{CacheParams, MIN_ALIGN};
use super::stats::SlabStats;
use crate::frame::{End, FRAME_BYTES, List, Order, Pfn};
use crate::pcp::Page;
use core::mem::MaybeUninit;
use lists::{BUCKETS, EMPTY, FAR_BYTES, Givers, SLABS_BATCH};
pub use lists::{BitmapSlabs, SlabsView};
use quarry_sys::broken::{Broken, Check};
use quarry_sys::percpu::{Object, PerCpu};
use word::FOLDABLE_OBJECTS;

/// The descriptor takes four link words, so a slab has at least four frames.
const MIN_ORDER: Order = Order::new(2);
const WORD_OBJECTS: u32 = 64;
const _: () = assert!(MIN_ORDER.bytes() / MIN_ALIGN <= FOLDABLE_OBJECTS as usize);

fn header_bytes(slab_bytes: usize, stride: usize) -> usize {
    let objects = slab_bytes / stride;
    if objects <= WORD_OBJECTS as usize { 0 } else { objects.div_ceil(64) * 8 }
}

impl BitmapSlabs {
    /// The smallest order from 2 to 5 that holds 8 objects and wastes at most 1/8, else the
    /// smallest that holds 4 objects.
    #[must_use]
    pub fn layout(params: &CacheParams) -> SlabLayout {
        let stride = params.stride();
        let fits = |order: u8| {
            let bytes = Order::new(order).bytes();
            let usable = bytes - header_bytes(bytes, stride).min(bytes);
            usable / stride >= 8 && (bytes - usable / stride * stride) * 8 <= bytes
        };
        let lowest = MIN_ORDER.get();
        let order = (lowest..=5).find(|order| fits(*order)).unwrap_or_else(|| {
            let frames = (stride * 4).div_ceil(FRAME_BYTES) as u32;
            Order::covering(frames.min(Order::MAX.frames())).get().max(lowest)
        });
        let order = Order::new(order);
        SlabLayout { order, header_bytes: header_bytes(order.bytes(), stride) }
    }

    /// The layout for a loose cache: as [`layout`](Self::layout), but the order leaves room for the
    /// cache's place. (A slab of order 3 has at most 2,032 objects, which the digest's word can
    /// count.)
    #[must_use]
    pub fn loose_layout(params: &CacheParams) -> SlabLayout {
        let order = Self::layout(params).order.max(LOOSE_ORDER);
        SlabLayout { order, header_bytes: header_bytes(order.bytes(), params.stride()) }
    }

    /// A view of these slabs, which belong to `cache`.
    #[inline(always)]
    pub fn of<'a, P: PerCpu>(&'a self, cache: CacheIn<'a, P>) -> SlabsView<'a, P> {
        let own = self.own(cache.context);
        SlabsView { context: cache.context, cache: cache.cache, slabs: self, own }
    }
}

impl<'a, P: PerCpu> SlabsView<'a, P> {
    /// Fills the front of `out` from slabs, and makes new slabs where the existing ones do not
    /// suffice. `sheaf`, the number of objects that a CPU keeps, decides whether pages are
    /// populated. Returns the number of objects, and whether never touched memory was taken.
    pub fn alloc(&self, sheaf: usize, out: &mut [MaybeUninit<Object>]) -> (usize, bool) {
        let (mut taken, mut is_fresh) = (self.take(out, Givers::Near), false);
        while taken < out.len() {
            let objects = sheaf.max(out.len() - taken);
            let Some(fresh) = self.grow(objects) else {
                taken += self.take(&mut out[taken..], Givers::All);
                break;
            };
            is_fresh |= fresh;
            taken += self.take(&mut out[taken..], Givers::Near);
        }
        (taken, is_fresh)
    }

    /// Fills the front of `out` from the existing slabs; returns the number of objects.
    #[inline(never)]
    fn take(&self, out: &mut [MaybeUninit<Object>], givers: Givers) -> usize {
        let mut lists = self.shard().lists.lock();
        let empty = lists.nr_empty();
        self.take_over(&mut lists, out.len() as u64, givers);
        let taken = lists.take(self, out, out.len(), true);
        self.publish(self.own, &mut lists, empty);
        taken
    }

    /// Takes up to `most` objects of the slabs under one lock, and gives them to `keep` in pieces,
    /// each slab's in falling order, for an array that hands out the last one first. Ends with a
    /// slab if it has half of them then; with `wants_all`, takes nothing if half are not there.
    /// `keep` learns which piece is the last one, and returns how many objects at the front it
    /// refuses: they go back, and the call ends. Returns the objects taken, and whether `keep` took
    /// all.
    #[inline(never)]
    pub(super) fn take_pieces(
        &self,
        most: usize,
        wants_all: bool,
        mut keep: impl FnMut(&[Object], bool) -> usize,
    ) -> (usize, bool) {
        let mut lists = self.shard().lists.lock();
        let (empty, mut left, mut refused, mut is_last) = (lists.nr_empty(), most, 0, false);
        let least = most.div_ceil(2) as u64;
        self.take_over(&mut lists, least, if wants_all { Givers::Spare } else { Givers::All });
        if wants_all && lists.nr_free < least {
            self.publish(self.own, &mut lists, empty);
            return (0, true);
        }
        while refused == 0 && !is_last {
            let mut buffer = [MaybeUninit::uninit(); PIECE];
            let out = &mut buffer[..left.min(PIECE)];
            let count = lists.take(self, out, left, 2 * left > most);
            out[..count].reverse();
            left -= count;
            is_last = count < PIECE || left == 0 || lists.nr_free == 0;
            // SAFETY: the lists wrote the first `count` elements.
            let objects = unsafe { written(out, count) };
            refused = keep(objects, is_last);
            lists.put(self, &objects[..refused], None);
        }
        self.publish(self.own, &mut lists, empty);
        (most - left, refused == 0)
    }

    /// Adds a slab for a request of `objects` objects. Other CPUs may take its objects before the
    /// caller does. Returns whether its memory was never touched; `None` if there is no memory.
    #[inline(never)]
    pub fn grow(&self, objects: usize) -> Option<bool> {
        let context = self.context;
        let slot = context.percpu.current();
        let page = context.take_block(slot, context.zones.node_of(slot), self.cache)?;
        self.add_slab(page, objects);
        Some(page.zeroed)
    }

    #[inline(never)]
    fn add_slab(&self, page: Page, objects: usize) {
        let cache = self.cache;
        let is_sample = page.zeroed && self.bring_in(page.pfn, objects);
        let slab = self.slab(page.pfn);
        slab.reset();
        // SAFETY: the block is a slab of this cache, and no other task can find it yet.
        unsafe { cache.construct(slab.address) };
        if let Some(place) = cache.id().place() {
            let eights = (0..cache.order().frames()).step_by(8).map(|frame| page.pfn.plus(frame));
            eights.for_each(|eight| slab.frames.set_link(loose_mark(eight), place));
        }
        slab.frames.set_kind(page.pfn, cache.order().frames(), cache.id().kind());
        self.set_owner(&slab, self.own);
        let mut lists = self.shard().lists.lock();
        let empty = lists.nr_empty();
        lists.nr_slabs += 1;
        lists.slabs_allocated += 1;
        lists.populating.made(slab.pfn, is_sample);
        lists.nr_free += u64::from(cache.objects());
        // The new slab goes to the tail, so that neighbouring slabs are used one after the other.
        lists.add(&slab, EMPTY, End::Tail);
        self.publish(self.own, &mut lists, empty);
    }

    /// Populates a slab of never touched memory, or leaves it to page faults. Returns whether it is
    /// a sample (see [`Plan::bring_in`](super::populating::Plan::bring_in)).
    fn bring_in(&self, slab: Pfn, objects: usize) -> bool {
        let (zones, cache) = (self.context.zones, self.cache);
        let (os, bytes) = (zones.arena().os(), objects * cache.stride());
        let mut plan = {
            let lists = self.lock(self.own);
            lists.populating.plan(os, cache, lists.nr_slabs, bytes)
        };
        if plan.look(zones, cache) {
            self.lock(self.own).populating.looked(&plan);
        }
        plan.bring_in(zones, cache, slab)
    }

    /// Gives objects back to their slabs, and empty slabs beyond `keep` to the context.
    #[inline]
    pub fn free(&self, objects: &[Object], keep: u32) {
        let context = self.context;
        for piece in objects.chunks(SLABS_BATCH) {
            let keep = if context.limits.is_empty_enough(context.zones) { 0 } else { keep };
            let shards = self.slabs.more.count();
            let emptied = if shards == 1 { self.put(piece, keep) } else { None };
            match emptied {
                Some(emptied) => context.add_emptied(emptied, self.cache.order()),
                None => self.put_to_owners(piece, keep / shards as u32),
            }
        }
    }

    /// Frees objects into their slabs, if there is only one shard; returns slabs beyond `keep` that
    /// became empty.
    #[inline(never)]
    fn put(&self, objects: &[Object], keep: u32) -> Option<List<Pfn>> {
        if self.outside() * self.cache.stride() as u64 >= FAR_BYTES {
            self.prefetch_slabs(objects);
        }
        let mut lists = self.slabs.shard(0).lists.lock();
        // A second shard may have come before the lock was taken, and have taken slabs over.
        if self.slabs.more.count() > 1 {
            return None;
        }
        let empty = lists.nr_empty();
        lists.put(self, objects, None);
        Some(self.detach_emptied(0, &mut lists, (empty, keep)))
    }

    /// Visits the number of every object that is free in `slab`. O(objects).
    pub fn visit_free(&self, slab: Pfn, visit: &mut dyn FnMut(u32)) {
        let slab = self.slab(slab);
        for index in 0..slab.words() {
            let bits = slab.bits_now(index);
            (0..64).filter(|bit| bits >> bit & 1 != 0).for_each(|bit| visit(index * 64 + bit));
        }
    }

    /// Gives the empty slabs beyond `keep` of each shard to the page allocator.
    pub fn trim(&self, keep: u32) {
        (0..self.slabs.more.count()).for_each(|shard| self.trim_shard(shard, keep));
    }

    fn trim_shard(&self, shard: usize, keep: u32) {
        let (context, cache) = (self.context, self.cache);
        loop {
            let mut lists = self.lock(shard);
            let kept = lists.nr_empty();
            if kept <= keep {
                return;
            }
            let most = (kept - keep).min(SLABS_BATCH as u32);
            let detached = lists.detach_empty(self, most);
            self.note_empty(shard, &lists, kept);
            drop(lists);
            context.add_emptied(detached, cache.order());
            context.give_back_emptied();
        }
    }

    /// Adds the counts of slabs and objects, and those of the list locks.
    pub fn add_stats(&self, stats: &mut SlabStats) {
        for shard in self.slabs.shards() {
            let lists = shard.lists.lock();
            let objects = lists.nr_slabs * u64::from(self.cache.objects());
            stats.total_slabs += lists.nr_slabs;
            stats.total_objects += objects;
            stats.active_objects += objects - lists.nr_free;
            stats.active_slabs += lists.nr_slabs - u64::from(lists.nr_empty());
            stats.partial_slabs += lists.nr_partial();
            stats.slabs_allocated += lists.slabs_allocated;
            drop(lists);
            stats.list_lock += shard.lists.stats();
        }
        stats.slabs_freed = stats.slabs_allocated - stats.total_slabs;
    }

    /// Checks the equations at the top of this file; fails with the first that does not hold.
    /// Returns the bytes of the empty slabs.
    pub fn validate(&self) -> Result<usize, Broken> {
        let shards = 0..self.slabs.more.count();
        shards.map(|shard| self.validate_shard(shard)).sum()
    }

    fn validate_shard(&self, shard: usize) -> Result<usize, Broken> {
        let frames = self.context.zones.frames();
        let lists = self.lock(shard);
        let (mut slabs, mut free) = (0, 0);
        for bucket in 0..BUCKETS {
            let mut length = 0u32;
            lists.slabs[bucket].validate(frames, |pfn| {
                length += 1;
                let (slab, check) = (self.slab(pfn), Check::of("slab").at(pfn.0));
                let counted: u32 =
                    (0..slab.words()).map(|index| slab.bits_now(index).count_ones()).sum();
                let is_own = cache_of(frames, pfn) == Some(self.cache.id());
                check.equal(slab.free(), counted, "free(slab) = popcount(bits)")?;
                check.that(slab.is_intact(), "digest(slab) = sum of terms of its bits")?;
                check.that(slab.bucket(counted) == Some(bucket), "list(slab) = its quarter")?;
                check.that(is_own, "kind of a slab's frames = its cache's")?;
                check.that(slab.owner() == shard, "owner(slab) = the shard of its list")?;
                slabs += 1;
                free += u64::from(counted);
                Ok(())
            })?;
            let check = Check::of("list of slabs");
            check.equal(lists.lengths[bucket], length, "length(list) = slabs on it")?;
        }
        let check = Check::of("slabs of a cache");
        check.equal(lists.nr_free, free, "nr_free = sum of free(slab)")?;
        check.that(slabs <= lists.nr_slabs, "slabs on lists <= nr_slabs")?;
        Ok(lists.nr_empty() as usize * self.cache.order().bytes())
    }
}
