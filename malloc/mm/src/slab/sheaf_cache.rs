//! The state of the policy `sheaf`: for each cache its barns, its slabs and its counts.

use super::barn::Barn;
use super::barns::Barns;
use super::bitmap_slabs::{BitmapSlabs, SlabsView};
use super::buffer::written;
use super::cache::{Cache, MAX_CACHES};
use super::context::{CacheIn, PIECE, SlabContext};
use super::stats::ArrayCounts;
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
    pub(super) counts: ArrayCounts,
}

impl SheafCache {
    const fn new() -> Self {
        Self {
            barns: Barns::new(),
            slabs: BitmapSlabs::new(),
            width: Width::new(),
            keep_empty: AtomicU32::new(0),
            barn_least: AtomicU32::new(0),
            counts: ArrayCounts::zero(),
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
        self.counts.restart(operations);
        self.barns.start();
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
        let outside = self.own.slabs.outside() as usize;
        let pointed = outside * self.cache.stride() / POINTERS_SHARE / size_of::<usize>();
        let least = self.own.barn_least.load(Ordering::Relaxed) as usize;
        (outside / BARN_SHARE).min(pointed).max(least)
    }

    pub(super) fn refill(&self) -> usize {
        (REFILL_BYTES / self.cache.stride()).max(1)
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
