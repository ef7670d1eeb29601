//! All caches of a stack, by number.

use super::cache::{Cache, CacheId, Identity, MAX_CACHES, SlabLayout};
use super::params::{CacheOptions, CacheParams};
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
    caches: [UnsafeCell<MaybeUninit<Cache>>; MAX_CACHES],
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
        // Without free numbers below `used`, skips the search: a start creates 72 caches in a row.
        let first = if self.count() == used { used + 1 } else { 1 };
        for id in (first..MAX_CACHES).map(CacheId::new).filter(|id| self.get(*id).is_none()) {
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
        Err(refused)
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
        self.live[id.index() / 64].fetch_and(!(1 << (id.index() % 64)), Ordering::Relaxed);
    }

    /// The cache with this number, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self, id: CacheId) -> Option<&Cache> {
        let is_live = self.live[id.index() / 64].load(Ordering::Acquire) >> (id.index() % 64) & 1;
        // SAFETY: while its bit is set, the entry is written and does not change.
        (is_live == 1).then(|| unsafe { (*self.caches[id.index()].get()).assume_init_ref() })
    }

    /// Number of caches.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.live.iter().map(|word| word.load(Ordering::Acquire).count_ones() as usize).sum()
    }

    /// All caches, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Cache> + Clone {
        let used = self.used.load(Ordering::Acquire) as usize;
        (1..=used).filter_map(|number| self.get(CacheId::new(number)))
    }
}
