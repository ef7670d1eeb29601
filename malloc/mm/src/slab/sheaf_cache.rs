//! The state of the policy `sheaf`: for each cache its barns, its slabs and its counts.

use super::barn::{Barn, Reached};
use super::barns::Barns;
use super::bitmap_slabs::{BitmapSlabs, SlabsView};
use super::buffer::written;
use super::cache::{Cache, MAX_CACHES};
use super::context::{CacheIn, PIECE, SlabContext};
use super::groups::{Hints, others};
use super::shards::MAX_SHARDS;
use super::stats::Count;
use super::width::Width;
use core::mem::MaybeUninit;
use quarry_sys::percpu::{ArrayId, Arrays};
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering};

/// Maximum number of bytes of objects that a CPU takes from slabs at a time. Most of these objects
/// are untouched memory. If a CPU takes more than it needs now, it uses the rest later, and so
/// touches new memory even if freed objects could serve then. (Doubling the number at each refill
/// until an array was full saved nothing in a growing heap, and caused a quarter more page faults.)
const REFILL_BYTES: usize = 32 << 10;

/// Bytes of objects that a barn may always hold, within [`BARN_OBJECTS`]. With a bound of 4096
/// objects of any size, lua, which frees and allocates ten thousand small objects by turns, went to
/// the slabs for half of them. With large objects the bound of all barns is reached first.
const BARN_BYTES: usize = 512 << 10;
/// The range of that bound in objects: their pointers take 32 to 128 KiB.
const BARN_OBJECTS: core::ops::RangeInclusive<usize> = 4096..=16384;
/// In a large cache a barn may hold more: the number of objects in use or parked, divided by this
/// (so half as many as are in use). In a heap of gigabytes, moving an object to its slab misses the
/// CPU's caches for the slab's descriptor and bits, and so does taking the object out again.
const BARN_SHARE: usize = 3;
/// The pointers in a barn take at most the bytes of its objects divided by this.
const POINTERS_SHARE: usize = 8;
/// Maximum number of bytes of empty slabs that a cache holds.
const EMPTY_BYTES: usize = 512 << 10;

/// The policy's state for one cache: all zero bytes until the cache is used.
pub(super) struct SheafCache {
    pub(super) barns: Barns,
    pub(super) slabs: BitmapSlabs,
    pub(super) width: Width,
    keep_empty: AtomicU32,
    barn_least: AtomicU32,
}

impl SheafCache {
    const fn new() -> Self {
        Self {
            barns: Barns::new(),
            slabs: BitmapSlabs::new(),
            width: Width::new(),
            keep_empty: AtomicU32::new(0),
            barn_least: AtomicU32::new(0),
        }
    }

    fn set_up(&self, cache: &Cache) {
        let keep = EMPTY_BYTES / cache.order().bytes();
        self.keep_empty.store(keep as u32, Ordering::Relaxed);
        let least = (BARN_BYTES / cache.stride()).clamp(*BARN_OBJECTS.start(), *BARN_OBJECTS.end());
        self.barn_least.store(least as u32, Ordering::Relaxed);
        self.barns.configure(cache.stride());
        self.width.set(cache.stride());
    }

    /// Resets the counts for a cache whose arrays have counted `operations` already.
    pub(super) fn start(&self, operations: u64) {
        self.barns.start(operations);
        self.slabs.start();
    }

    /// Maximum number of empty slabs that the cache keeps.
    pub(super) fn keep_empty(&self) -> u32 {
        self.keep_empty.load(Ordering::Relaxed)
    }
}

/// A cache together with the data of its slow paths.
pub struct SheafView<'a, P: Arrays> {
    pub(super) context: &'a SlabContext<'a, P>,
    pub(super) cache: &'a Cache,
    pub(super) policy: &'a Sheaf,
    pub(super) own: &'a SheafCache,
}

impl<P: Arrays> SheafView<'_, P> {
    pub(super) fn array(&self) -> ArrayId {
        self.cache.id().array()
    }

    /// Maximum number of objects in a barn. The bound falls as objects go back to their slabs, so
    /// that a few parked objects do not keep all slabs alive.
    #[inline(never)]
    pub(super) fn barn_most(&self) -> usize {
        let outside = self.slabs().outside() as usize;
        let pointed = outside * self.cache.stride() / POINTERS_SHARE / size_of::<usize>();
        let least = self.own.barn_least.load(Ordering::Relaxed) as usize;
        (outside / BARN_SHARE).min(pointed).max(least)
    }

    pub(super) fn refill(&self) -> usize {
        (REFILL_BYTES / self.cache.stride()).max(1)
    }

    /// The number of the running CPU's barn, and the barn.
    #[inline]
    pub(super) fn barn(&self) -> (usize, &Barn) {
        let (number, group) = self.own.barns.here(&self.own.slabs.groups, self.context);
        (number, &group.barn)
    }

    /// The running CPU's barn, or that of another group, if it holds objects.
    #[inline]
    pub(super) fn reach_barn(&self) -> Option<(&Barn, Reached<'_>)> {
        let (own, barn) = self.barn();
        let reached = barn.reach();
        if !reached.is_empty() {
            return Some((barn, reached));
        }
        drop(reached);
        self.reach_other(own, self.own.slabs.groups.hints()?)
    }

    /// A barn of another group and the same node that holds objects and is free at the moment.
    #[cold]
    #[inline(never)]
    fn reach_other(&self, own: usize, hints: &Hints) -> Option<(&Barn, Reached<'_>)> {
        let (barns, nodes) = (&self.own.barns, self.own.barns.nodes());
        let is_giver =
            |other: &usize| other.abs_diff(own).is_multiple_of(nodes) && hints.filled.has(*other);
        others(own, barns.all().count()).filter(is_giver).find_map(|number| {
            let barn = barns.of(number);
            let reached = barn.try_reach()?;
            if reached.is_empty() {
                hints.filled.set(number, false);
                return None;
            }
            Some((barn, reached))
        })
    }

    /// Counts `by` exchanges that the barn does not count.
    pub(super) fn count(&self, count: Count, by: usize) {
        let (_, group) = self.own.barns.here(&self.own.slabs.groups, self.context);
        group.counts.add(count, by);
    }

    /// Notes in the hints that a barn holds objects, if it does. Who finds it empty takes it out.
    #[inline]
    pub(super) fn note_filled(&self, number: usize, barn: &Barn) {
        if let Some(hints) = self.own.slabs.groups.hints()
            && barn.bytes() > 0
        {
            hints.filled.set(number, true);
        }
    }

    /// Makes more groups if CPUs have waited for each other.
    #[inline]
    pub(super) fn split_if_contended(&self) {
        let groups = &self.own.slabs.groups;
        if self.barn().1.was_contended() {
            groups.note_contended();
        }
        if groups.is_contended() {
            self.split();
        }
    }

    #[cold]
    #[inline(never)]
    fn split(&self) {
        self.split_for(self.context.limits.cpus(self.context.percpu.area()));
    }

    /// Makes twice as many groups, if `cpus` CPUs are enough for them.
    pub(super) fn split_for(&self, cpus: usize) {
        let (own, context) = (self.own, self.context);
        let most = MAX_SHARDS / own.barns.nodes();
        own.slabs.groups.split((cpus, most), context.metadata, |groups| {
            own.barns.make_shards(groups, self.cache.stride(), context)?;
            own.slabs.make_shards(groups, context.metadata)
        });
    }

    /// Gives up to [`PIECE`] objects to the slabs, from the first barn that is not empty. The cache
    /// keeps at most `keep` empty slabs. Returns the number of objects.
    pub(super) fn empty_barns(&self, keep: u32) -> usize {
        let give = |barn| self.empty_barn(barn, PIECE, keep);
        self.own.barns.all().map(give).find(|taken| *taken > 0).unwrap_or(0)
    }

    pub(super) fn empty_barn(&self, barn: &Barn, most: usize, keep: u32) -> usize {
        let taken = self.take_out(barn, most, keep);
        self.context.give_back_emptied();
        taken
    }

    #[inline(never)]
    fn take_out(&self, barn: &Barn, most: usize, keep: u32) -> usize {
        let mut buffer = [MaybeUninit::uninit(); PIECE];
        let taken = barn.take(self.context.limits, &mut buffer[..most.min(PIECE)]);
        // SAFETY: `take` wrote the first `taken` elements.
        self.slabs().free(unsafe { written(&buffer, taken) }, keep);
        barn.trim_storage(self.context.metadata, true);
        taken
    }

    #[inline(always)]
    pub(super) fn slabs(&self) -> SlabsView<'_, P> {
        self.own.slabs.of(self.context.with(self.cache))
    }
}

/// The policy `sheaf`; see `sheaf.rs`.
#[repr(C)]
pub struct Sheaf {
    /// Bit `n % 64` of word `n / 64` is set once cache `n` is set up. [`SheafCache`] has no such
    /// flag, because reading it before the first write would cost a second page fault.
    set_up: [AtomicU64; MAX_CACHES.div_ceil(64)],
    caches: [SheafCache; MAX_CACHES],
}

impl Sheaf {
    pub(super) const fn new() -> Self {
        Self {
            set_up: [const { AtomicU64::new(0) }; MAX_CACHES.div_ceil(64)],
            caches: [const { SheafCache::new() }; MAX_CACHES],
        }
    }

    /// A cache that is about to be used; sets its state up at the first use.
    #[inline]
    pub fn of<'a, P: Arrays>(&'a self, cache: CacheIn<'a, P>) -> SheafView<'a, P> {
        if !self.is_set_up(&cache) {
            self.set_up(&cache);
        }
        self.at(cache)
    }

    #[inline]
    pub(super) fn is_set_up(&self, cache: &Cache) -> bool {
        let number = cache.id().index();
        self.set_up[number / 64].load(Ordering::Acquire) >> (number % 64) & 1 != 0
    }

    /// Sets a cache's state up. Two tasks may do this at once: they store the same values.
    #[cold]
    pub(super) fn set_up(&self, cache: &Cache) {
        let number = cache.id().index();
        self.caches[number].set_up(cache);
        self.set_up[number / 64].fetch_or(1 << (number % 64), Ordering::Release);
    }

    /// A cache for readers: its state is all zero bytes if it was never used. `malloc` has 72
    /// caches, and a program touches the pages of only those that it uses.
    pub fn at<'a, P: Arrays>(&'a self, cache: CacheIn<'a, P>) -> SheafView<'a, P> {
        SheafView {
            context: cache.context,
            cache: cache.cache,
            policy: self,
            own: &self.caches[cache.id().index()],
        }
    }
}
