//! All caches of a stack, by number.

use super::cache::{Cache, CacheId, HAS_LOOSE, Identity, LOOSE, MAX_CACHES, SlabLayout};
use super::params::{CacheOptions, CacheParams};
use super::pieces::Pieces;
use crate::frame::{FreshZero, Metadata};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::primitive::{AtomicU32, AtomicU64, Ordering};

const WORDS: usize = MAX_CACHES.div_ceil(64);

/// A request for a cache.
pub(super) struct CacheRequest<'a> {
    pub(super) name: &'a str,
    pub(super) params: &'a CacheParams,
    pub(super) options: &'a CacheOptions,
    /// True if an existing cache of the same stride may be returned instead.
    pub(super) merges: bool,
    /// True if the policy links free objects through themselves.
    pub(super) links: bool,
    /// See [`SlabPolicy::LOOSE_LAYOUT`](super::policy::SlabPolicy::LOOSE_LAYOUT).
    pub(super) loose_layout: Option<fn(&CacheParams) -> SlabLayout>,
}

/// All caches of a stack. Readers take no lock. A new cache gets the lowest free number.
///
/// Equation: bit `n` of `live` is set iff cache `n` exists. Entry `n` then changes only atomically.
#[repr(C)]
pub struct CacheTable {
    live: [AtomicU64; WORDS],
    /// Numbers `1..=used` have belonged to a cache.
    used: AtomicU32,
    created: AtomicU32,
    /// Later caches are not merged into caches with numbers up to this one.
    kept_apart: AtomicU32,
    adding: CountedLock<()>,
    places: AtomicU32,
    first_free: AtomicU32,
    loose: Pieces<LooseEntry>,
    caches: [UnsafeCell<MaybeUninit<Cache>>; MAX_CACHES],
}

/// A place of the list of loose caches.
struct LooseEntry {
    is_live: AtomicU32,
    cache: UnsafeCell<MaybeUninit<Cache>>,
}

// SAFETY: zero bytes are an entry that is not live.
unsafe impl FreshZero for LooseEntry {}
// SAFETY: as for `CacheTable`, with `is_live` in place of the bit.
unsafe impl Sync for LooseEntry {}

impl LooseEntry {
    fn get(&self) -> Option<&Cache> {
        let is_live = self.is_live.load(Ordering::Acquire) == 1;
        // SAFETY: while it is live, the entry is written and does not change.
        is_live.then(|| unsafe { (*self.cache.get()).assume_init_ref() })
    }
}

// SAFETY: `add` writes entry `n` while it holds `adding` and bit `n` of `live` is clear, and then
// sets the bit with release ordering. Readers read only entries whose bit they have seen. The
// caller of `remove`, which clears the bit, promises that no thread reads the entry any more.
unsafe impl Sync for CacheTable {}
// SAFETY: as for Sync.
unsafe impl Send for CacheTable {}

impl CacheTable {
    /// A table without caches.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            live: [const { AtomicU64::new(0) }; WORDS],
            used: AtomicU32::new(0),
            created: AtomicU32::new(0),
            kept_apart: AtomicU32::new(0),
            adding: CountedLock::new(()),
            places: AtomicU32::new(0),
            first_free: AtomicU32::new(0),
            loose: Pieces::new(),
            caches: [const { UnsafeCell::new(MaybeUninit::uninit()) }; MAX_CACHES],
        }
    }

    /// Visits the lock of the table.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("caches->adding", &self.adding);
    }

    /// Adds a cache whose slabs have the `layout`, once `take_up` has accepted it. If
    /// `request.merges` and there is a mergeable cache of the same stride (and so of the same
    /// alignment), only counts an alias of that cache and returns it (`slab_merge`, Linux 2.6.22).
    /// If `take_up` fails with `EBUSY`, tries the next number.
    pub(super) fn add(
        &self,
        request: &CacheRequest<'_>,
        metadata: &Metadata,
        layout: impl Fn(&CacheParams) -> SlabLayout,
        take_up: impl Fn(&Cache) -> OsResult<()>,
    ) -> OsResult<&Cache> {
        let _held = self.adding.lock();
        if request.merges
            && let Some(twin) = self.find_mergeable(request)
        {
            twin.aliases.fetch_add(1, Ordering::Relaxed);
            return Ok(twin);
        }
        let used = self.used.load(Ordering::Relaxed) as usize;
        let generation = self.created.load(Ordering::Relaxed) + 1;
        let mut refused = OsError(libc::ENOSPC);
        let last = if request.options.loose { 1 } else { LOOSE };
        // Without free numbers below `used`, skips the search: a start creates 72 caches in a row.
        let first = if self.count() == used { used + 1 } else { 1 };
        for id in (first..last).map(CacheId::new).filter(|id| self.get(*id).is_none()) {
            let identity = Identity { id, generation, is_reused: id.index() <= used };
            let wish = (request.params, request.options);
            let cache = Cache::new(identity, request.name, wish, request.links, &layout)?;
            match take_up(&cache) {
                Ok(()) => {}
                Err(OsError(libc::EBUSY)) => {
                    refused = OsError(libc::EBUSY);
                    continue;
                }
                Err(error) => return Err(error),
            }
            // SAFETY: we hold `adding` and the bit is clear, so no thread reads this entry.
            unsafe { (*self.caches[id.index()].get()).write(cache) };
            self.created.store(generation, Ordering::Relaxed);
            self.used.store(used.max(id.index()) as u32, Ordering::Relaxed);
            self.live[id.index() / 64].fetch_or(1 << (id.index() % 64), Ordering::Release);
            return Ok(self.get(id).expect("just added"));
        }
        let layout = request.loose_layout.filter(|_| HAS_LOOSE).ok_or(refused)?;
        self.add_loose(request, metadata, generation, layout, take_up)
    }

    fn add_loose(
        &self,
        request: &CacheRequest<'_>,
        metadata: &Metadata,
        generation: u32,
        layout: fn(&CacheParams) -> SlabLayout,
        take_up: impl Fn(&Cache) -> OsResult<()>,
    ) -> OsResult<&Cache> {
        let place = self.free_place();
        let is_reused = place < self.places.load(Ordering::Relaxed);
        let identity = Identity { id: CacheId::loose(place), generation, is_reused };
        let wish = (request.params, request.options);
        let cache = Cache::new(identity, request.name, wish, false, layout)?;
        take_up(&cache)?;
        let entry = self.loose.make(place as usize, metadata)?;
        // SAFETY: we hold `adding` and the entry is not live, so no thread reads it.
        unsafe { (*entry.cache.get()).write(cache) };
        self.created.store(generation, Ordering::Relaxed);
        self.first_free.store(place + 1, Ordering::Relaxed);
        entry.is_live.store(1, Ordering::Release);
        self.places.fetch_max(place + 1, Ordering::Release);
        Ok(entry.get().expect("just added"))
    }

    /// The first place of the list that has no loose cache.
    fn free_place(&self) -> u32 {
        let first = self.first_free.load(Ordering::Relaxed);
        (first..).find(|place| self.get(CacheId::loose(*place)).is_none()).expect("places suffice")
    }

    fn find_mergeable(&self, request: &CacheRequest<'_>) -> Option<&Cache> {
        let apart = self.kept_apart.load(Ordering::Relaxed) as usize;
        if !request.params.is_possible() || !request.options.are_mergeable() {
            return None;
        }
        let stride = request.params.stride();
        self.iter().find(|cache| {
            cache.id().index() > apart && cache.options.are_mergeable() && cache.stride() == stride
        })
    }

    /// Keeps later caches from being merged into those created so far.
    pub(crate) fn keep_apart(&self) {
        let _held = self.adding.lock();
        self.kept_apart.store(self.used.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Drops one alias of a cache; returns false if it has no alias.
    pub(crate) fn drop_alias(&self, cache: &Cache) -> bool {
        let _held = self.adding.lock();
        let fewer = cache.aliases().checked_sub(1);
        fewer.inspect(|aliases| cache.aliases.store(*aliases, Ordering::Relaxed)).is_some()
    }

    /// Removes the cache with this number.
    ///
    /// # Safety
    /// No thread has a reference to the cache, or is about to get one.
    pub unsafe fn remove(&self, id: CacheId) {
        let _held = self.adding.lock();
        if let Some(place) = id.place() {
            let entry = self.loose.get(place as usize).expect("the cache exists");
            entry.is_live.store(0, Ordering::Relaxed);
            self.first_free.fetch_min(place, Ordering::Relaxed);
            return;
        }
        self.live[id.index() / 64].fetch_and(!(1 << (id.index() % 64)), Ordering::Relaxed);
    }

    /// The cache with this number, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self, id: CacheId) -> Option<&Cache> {
        if let Some(place) = id.place() {
            return self.loose.get(place as usize)?.get();
        }
        let is_live = self.live[id.index() / 64].load(Ordering::Acquire) >> (id.index() % 64) & 1;
        // SAFETY: while its bit is set, the entry is written and does not change.
        (is_live == 1).then(|| unsafe { (*self.caches[id.index()].get()).assume_init_ref() })
    }

    /// Number of caches but the loose ones.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.live.iter().map(|word| word.load(Ordering::Acquire).count_ones() as usize).sum()
    }

    /// All loose caches, by place.
    pub fn loose(&self) -> impl Iterator<Item = &Cache> + Clone {
        let places = if HAS_LOOSE { self.places.load(Ordering::Acquire) } else { 0 };
        (0..places).filter_map(|at| self.get(CacheId::loose(at)))
    }

    /// All caches but the loose ones, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Cache> + Clone {
        let used = self.used.load(Ordering::Acquire) as usize;
        (1..=used).filter_map(|number| self.get(CacheId::new(number)))
    }
}
