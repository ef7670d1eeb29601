//! The lists of a cache's slabs, in one shard or several. Each slab has an *owner*, the shard of
//! the CPUs that made it or took it over; its lists and bits change under the lock of that shard.
//!
//! An object goes back to its slab, so to the shard of the owner. A shard that has too few free
//! objects takes slabs of others over before it makes new ones, so that shards cost hardly any
//! memory.
//!
//! The owner of a slab changes only while the locks of both shards are held: first that of the
//! shard which takes over, then that of the other, if it is free at the moment. So two shards never
//! wait for each other.

use super::slab::Slab;
use crate::frame::{End, FreshZero, Kind, Links, List, Metadata, Pfn};
use crate::slab::cache::{Cache, cache_of};
use crate::slab::context::{MAX_BATCH, SlabContext};
use crate::slab::groups::{Groups, others};
use crate::slab::misuse::not_in_use;
use crate::slab::populating::Populating;
use crate::slab::shards::Shards;
use core::mem::MaybeUninit;
use quarry_sys::lock::{Contention, CountedLock, Guard};
use quarry_sys::locks::Visit;
use quarry_sys::os::OsResult;
use quarry_sys::percpu::{Object, PerCpu};
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering};

pub(super) const BUCKETS: usize = 5;
pub(super) const EMPTY: usize = 4;
/// Maximum number of objects (a sheaf of a wide array) or slabs that a critical section gives back.
pub(super) const SLABS_BATCH: usize = 2 * MAX_BATCH;
/// From this many bytes of slabs on, most of a cache's descriptors and bits miss the CPU's caches.
pub(super) const FAR_BYTES: u64 = 16 << 20;
/// A shard has objects to spare from this many bytes of free objects on, until it has half of them.
const SPARE_BYTES: u64 = 64 << 10;
/// Slabs that a shard takes over at a time from one that has more free objects, to ask seldom.
const TAKEN_OVER: u32 = 32;
const _: () = assert!(SLABS_BATCH == u128::BITS as usize);

pub(super) struct Lists {
    pub(super) slabs: [List<Pfn>; BUCKETS],
    pub(super) lengths: [u32; BUCKETS],
    pub(super) nr_slabs: u64,
    pub(super) nr_free: u64,
    pub(super) slabs_allocated: u64,
    pub(super) populating: Populating,
    pub(super) seen: Contention,
}

/// The shards from which another one takes slabs over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Givers {
    /// Those of its node that have objects to spare.
    Spare,
    /// Those of its node.
    Near,
    /// All, where there is no memory for new slabs.
    All,
}

/// The slabs of a group of CPUs, under one counted lock.
#[repr(align(64))]
pub(super) struct Shard {
    pub(super) lists: CountedLock<Lists>,
    /// Objects that are not free in a slab, and those that are, for readers without the lock.
    pub(super) outside: AtomicU64,
    pub(super) inside: AtomicU64,
}

// SAFETY: zero bytes are empty lists, counts of 0 and a free lock, as in `Shard::new`.
unsafe impl FreshZero for Shard {}

/// The slabs of one cache.
pub struct BitmapSlabs {
    pub(super) first: Shard,
    pub(super) more: Shards<Shard>,
    pub(crate) groups: Groups,
    /// The number of nodes less 1: 0 unless [`make_for_nodes`](Self::make_for_nodes) was called.
    more_nodes: AtomicU32,
}

/// The slabs of a cache, together with what an operation needs.
pub struct SlabsView<'a, P: PerCpu> {
    pub(super) context: &'a SlabContext<'a, P>,
    pub(super) cache: &'a Cache,
    pub(super) slabs: &'a BitmapSlabs,
    /// The shard of the CPU that runs the operation.
    pub(super) own: usize,
}

impl BitmapSlabs {
    /// No slabs.
    #[must_use]
    pub const fn new() -> Self {
        let (first, more, groups) = (Shard::new(), Shards::new(), Groups::new());
        Self { first, more, groups, more_nodes: AtomicU32::new(0) }
    }

    /// Resets the counts for a new cache, which has no slab yet.
    pub fn start(&self) {
        self.shards().for_each(Shard::start);
    }

    pub(super) fn shard(&self, number: usize) -> &Shard {
        self.more.at(&self.first, number)
    }

    pub(super) fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.more.all(&self.first)
    }

    /// Makes the shards of at least `groups` groups.
    pub(crate) fn make_shards(&self, groups: usize, metadata: &Metadata) -> OsResult<()> {
        self.more.make(groups * self.nodes(), metadata, |_| {})
    }

    /// Makes a shard for each node, so that no node takes objects of another while it can make
    /// slabs. To be called before there are any.
    pub(crate) fn make_for_nodes(&self, nodes: usize, metadata: &Metadata) -> OsResult<()> {
        self.more.make(nodes, metadata, |_| {})?;
        self.more_nodes.store(nodes as u32 - 1, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn nodes(&self) -> usize {
        self.more_nodes.load(Ordering::Acquire) as usize + 1
    }

    /// The shard of the running CPU.
    #[inline(always)]
    pub(super) fn own<P: PerCpu>(&self, context: &SlabContext<'_, P>) -> usize {
        let (nodes, slot) = (self.nodes(), || context.percpu.current());
        let group = self.groups.of(slot);
        if nodes == 1 {
            group
        } else {
            group * nodes + usize::from(context.zones.node_of(slot()).0)
        }
    }

    /// Objects that are free in a slab. Takes no lock.
    pub(crate) fn inside(&self) -> u64 {
        self.shards().map(|shard| shard.inside.load(Ordering::Relaxed)).sum()
    }

    /// Visits the list locks.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        self.shards().for_each(|shard| visit("slab->list_lock", &shard.lists));
    }
}

impl Shard {
    const fn new() -> Self {
        Self {
            outside: AtomicU64::new(0),
            inside: AtomicU64::new(0),
            lists: CountedLock::new(Lists::new()),
        }
    }

    pub(super) fn start(&self) {
        let mut lists = self.lists.lock();
        debug_assert!(lists.nr_slabs == 0);
        lists.slabs_allocated = 0;
        lists.populating = Populating::new();
    }
}

impl<'a, P: PerCpu> SlabsView<'a, P> {
    pub(super) fn slab(&self, pfn: Pfn) -> Slab<'a> {
        let (zones, caches) = (self.context.zones, self.context.caches);
        let address = zones.arena().address(pfn);
        Slab { zones, caches, frames: zones.frames(), cache: self.cache, pfn, address }
    }

    #[inline(never)]
    pub(super) fn lock(&self, shard: usize) -> Guard<'_, Lists> {
        self.slabs.shard(shard).lists.lock()
    }

    pub(super) fn shard(&self) -> &Shard {
        self.slabs.shard(self.own)
    }

    /// Objects of the CPU's shard that are not free in a slab: in use, or parked. Takes no lock.
    pub(crate) fn outside(&self) -> u64 {
        self.shard().outside.load(Ordering::Relaxed)
    }

    /// Ends a critical section that began with `empty` empty slabs: takes out those slabs beyond
    /// `keep` that became empty.
    #[inline(never)]
    pub(super) fn detach_emptied(
        &self,
        shard: usize,
        lists: &mut Lists,
        (empty, keep): (u32, u32),
    ) -> List<Pfn> {
        let emptied = lists.nr_empty() - empty;
        let beyond = lists.nr_empty().saturating_sub(keep).min(emptied);
        let detached = lists.detach_empty(self, beyond);
        self.publish(shard, lists, empty);
        detached
    }

    /// Publishes the counts at the end of a critical section that began with `empty` empty slabs.
    pub(super) fn publish(&self, shard: usize, lists: &mut Lists, empty: u32) {
        let objects = lists.nr_slabs * u64::from(self.cache.objects());
        let published = self.slabs.shard(shard);
        published.outside.store(objects - lists.nr_free, Ordering::Relaxed);
        if lists.seen.is_high(published.lists.stats()) {
            self.slabs.groups.note_contended();
        }
        self.note_empty(shard, lists, empty);
    }

    pub(super) fn note_empty(&self, shard: usize, lists: &Lists, before: u32) {
        self.slabs.shard(shard).inside.store(lists.nr_free, Ordering::Relaxed);
        self.note_spare(shard, lists);
        self.context.limits.empty_changed(self.cache, before, lists.nr_empty());
    }

    pub(super) fn slab_of(&self, object: Object) -> Slab<'a> {
        let pfn = self.context.slab_of(self.cache, object);
        // The object was freed twice: a slot still held it when its slab was given back.
        if cache_of(self.context.zones.frames(), pfn) != Some(self.cache.id()) {
            not_in_use(self.cache, object);
        }
        self.slab(pfn)
    }

    /// Prefetches the parts of slabs that [`Lists::put`] reads, so that cache misses overlap.
    pub(super) fn prefetch_slabs(&self, objects: &[Object]) {
        let mut last = None;
        for object in objects {
            let pfn = self.context.slab_of(self.cache, *object);
            if last.replace(pfn) != Some(pfn) {
                self.slab(pfn).prefetch();
            }
        }
    }

    pub(super) fn set_owner(&self, slab: &Slab<'_>, shard: usize) {
        if self.slabs.more.count() > 1 {
            slab.set_owner(shard);
        }
    }

    /// Locks the shard that the slab of an object belongs to.
    pub(super) fn lock_owner(&self, object: Object) -> (usize, Guard<'_, Lists>) {
        let slab = self.slab(self.context.slab_of(self.cache, object));
        loop {
            let owner = slab.owner();
            let lists = self.lock(owner);
            if self.is_of(&slab, owner) {
                return (owner, lists);
            }
        }
    }

    /// Notes in the hints whether a shard has objects to spare.
    pub(super) fn note_spare(&self, shard: usize, lists: &Lists) {
        if let Some(hints) = self.slabs.groups.hints() {
            let spare = &hints.spare;
            let least = if spare.has(shard) { SPARE_BYTES / 2 } else { SPARE_BYTES };
            spare.set(shard, lists.nr_free * self.cache.stride() as u64 >= least);
        }
    }

    /// Moves slabs of other shards to the CPU's own, whose `lists` are locked, until it has
    /// `wanted` free objects.
    #[inline]
    pub(super) fn take_over(&self, lists: &mut Lists, wanted: u64, givers: Givers) {
        if lists.nr_free < wanted && self.slabs.more.count() > 1 {
            self.take_over_from(lists, wanted, givers);
        }
    }

    #[cold]
    #[inline(never)]
    fn take_over_from(&self, lists: &mut Lists, wanted: u64, givers: Givers) {
        let shards = self.slabs.more.count();
        let (hints, nodes) = (self.slabs.groups.hints(), self.slabs.nodes());
        let is_spare = |shard| hints.is_some_and(|hints| hints.spare.has(shard));
        let is_near = |shard: usize| shard.abs_diff(self.own).is_multiple_of(nodes);
        let is_giver = |shard: &usize| match givers {
            Givers::Spare => is_near(*shard) && is_spare(*shard),
            Givers::Near => is_near(*shard),
            Givers::All => true,
        };
        for shard in others(self.own, shards).filter(is_giver) {
            let Some(mut theirs) = self.slabs.shard(shard).lists.try_lock() else { continue };
            let empty = theirs.nr_empty();
            self.move_slabs(&mut theirs, lists, wanted);
            self.publish(shard, &mut theirs, empty);
            if lists.nr_free >= wanted {
                return;
            }
        }
    }

    /// Moves the fullest slabs with free objects, and up to [`TAKEN_OVER`] slabs in all if the
    /// shards then have as much.
    fn move_slabs(&self, from: &mut Lists, to: &mut Lists, wanted: u64) {
        let mut left = TAKEN_OVER;
        for bucket in 0..BUCKETS {
            while (to.nr_free < wanted || left > 0 && to.nr_free < from.nr_free)
                && let Some(head) = from.slabs[bucket].first()
            {
                left = left.saturating_sub(1);
                let slab = self.slab(head);
                let free = u64::from(slab.free());
                from.remove(&slab, bucket);
                from.nr_slabs -= 1;
                from.nr_free -= free;
                from.populating.gone(head);
                slab.set_owner(self.own);
                to.nr_slabs += 1;
                to.nr_free += free;
                to.add(&slab, bucket, End::Head);
            }
        }
    }

    /// Gives objects back to slabs of several shards, in one critical section for each.
    #[cold]
    #[inline(never)]
    pub(super) fn put_to_owners(&self, objects: &[Object], keep: u32) {
        if self.outside() * self.cache.stride() as u64 >= FAR_BYTES {
            self.prefetch_slabs(objects);
        }
        let mut left = u128::MAX >> (SLABS_BATCH - objects.len());
        while left != 0 {
            let (shard, mut lists) = self.lock_owner(objects[left.trailing_zeros() as usize]);
            let empty = lists.nr_empty();
            lists.put(self, objects, Some((shard, &mut left)));
            let emptied = self.detach_emptied(shard, &mut lists, (empty, keep));
            drop(lists);
            self.context.add_emptied(emptied, self.cache.order());
        }
    }

    /// Returns whether a slab belongs to a shard whose lists are locked.
    #[inline]
    pub(super) fn is_of(&self, slab: &Slab<'_>, shard: usize) -> bool {
        slab.owner() == shard || self.context.percpu.reads_owner_once()
    }
}

impl Lists {
    const fn new() -> Self {
        Self {
            slabs: [const { List::new() }; BUCKETS],
            lengths: [0; BUCKETS],
            nr_slabs: 0,
            nr_free: 0,
            slabs_allocated: 0,
            populating: Populating::new(),
            seen: Contention::new(),
        }
    }

    pub(super) fn nr_empty(&self) -> u32 {
        self.lengths[EMPTY]
    }

    pub(super) fn nr_partial(&self) -> u64 {
        self.lengths[..EMPTY].iter().copied().map(u64::from).sum()
    }

    pub(super) fn add(&mut self, slab: &Slab<'_>, bucket: usize, end: End) {
        self.slabs[bucket].add(slab.frames, slab.pfn, end);
        self.lengths[bucket] += 1;
    }

    pub(super) fn remove(&mut self, slab: &Slab<'_>, bucket: usize) {
        self.slabs[bucket].remove(slab.frames, slab.pfn);
        self.lengths[bucket] -= 1;
    }

    /// Moves a slab from the list for `from` free objects to the list for `to`.
    pub(super) fn moved(&mut self, slab: &Slab<'_>, from: u32, to: u32, end: End) {
        let (old, new) = (slab.bucket(from), slab.bucket(to));
        if old == new {
            return;
        }
        if let Some(bucket) = old {
            self.remove(slab, bucket);
        }
        if let Some(bucket) = new {
            self.add(slab, bucket, end);
        }
    }

    /// Fills the front of `out` from one slab or several, for a request of `most` objects in all.
    /// (Inlined, its frame would lie under that of the caller's next call, where stacks are small.)
    #[inline(never)]
    pub(super) fn take<P: PerCpu>(
        &mut self,
        view: &SlabsView<'_, P>,
        out: &mut [MaybeUninit<Object>],
        most: usize,
        from_several: bool,
    ) -> usize {
        let mut taken = 0;
        for bucket in 0..BUCKETS {
            while taken < out.len()
                && (from_several || taken == 0)
                && let Some(head) = self.slabs[bucket].first()
            {
                let slab = view.slab(head);
                if self.nr_slabs * view.cache.order().bytes() as u64 >= FAR_BYTES
                    && let Some(next) = slab.frames.next(head).get()
                {
                    view.slab(next).prefetch();
                }
                let before = slab.free();
                let count = (out.len() - taken).min(before as usize);
                let left = before.saturating_sub((most - taken) as u32);
                slab.take(&mut out[taken..taken + count], left);
                taken += count;
                self.nr_free -= count as u64;
                self.moved(&slab, before, before - count as u32, End::Head);
            }
        }
        taken
    }

    /// Frees objects into their slabs: with `owned`, a shard and a bit for each object, only those
    /// objects whose bits are set and whose slabs belong to that shard, and clears their bits.
    #[inline]
    pub(super) fn put<P: PerCpu>(
        &mut self,
        view: &SlabsView<'_, P>,
        objects: &[Object],
        mut owned: Option<(usize, &mut u128)>,
    ) {
        let mut at = 0;
        while let Some(&object) = objects.get(at) {
            // A slab whose objects were all freed before may be another cache's by now.
            if owned.as_ref().is_some_and(|(_, left)| **left >> at & 1 == 0) {
                at += 1;
                continue;
            }
            let slab = view.slab_of(object);
            if owned.as_ref().is_some_and(|(shard, _)| !view.is_of(&slab, *shard)) {
                at += 1;
                continue;
            }
            let before = slab.free();
            let count = slab.put_batch(&objects[at..]);
            self.nr_free += count as u64;
            self.moved(&slab, before, before + count as u32, End::Head);
            if let Some((_, left)) = &mut owned {
                **left &= !(u128::MAX >> (SLABS_BATCH - count) << at);
            }
            at += count;
        }
    }

    pub(super) fn detach_empty<P: PerCpu>(
        &mut self,
        view: &SlabsView<'_, P>,
        most: u32,
    ) -> List<Pfn> {
        let mut detached = List::new();
        for _ in 0..most {
            let Some(empty) = self.slabs[EMPTY].first() else { break };
            let slab = view.slab(empty);
            self.detach(&slab);
            detached.push_back(slab.frames, slab.pfn);
        }
        detached
    }

    pub(super) fn detach(&mut self, slab: &Slab<'_>) {
        slab.demand_intact();
        self.remove(slab, EMPTY);
        self.nr_slabs -= 1;
        self.nr_free -= u64::from(slab.cache.objects());
        self.populating.gone(slab.pfn);
        slab.set_owner(0);
        slab.frames.set_kind(slab.pfn, slab.cache.order().frames(), Kind::NONE);
    }
}
