//! All caches of a stack, by number.

use super::cache::{Cache, CacheId, CacheParams, MAX_CACHES, SlabLayout};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use quarry_sys::lock::CountedLock;
use quarry_sys::locks::Visit;
use quarry_sys::os::{OsError, OsResult};
use quarry_sys::primitive::{AtomicU32, Ordering};

/// All caches of a stack. Caches are added under a lock and never removed; readers need none.
pub struct CacheTable {
    caches: [UnsafeCell<MaybeUninit<Cache>>; MAX_CACHES],
    /// Caches there are; they have the numbers `1..=count`.
    count: AtomicU32,
    /// Of them, those that no other shares: the first ones.
    kept_apart: AtomicU32,
    adding: CountedLock<()>,
}

// SAFETY: entry `i` is written once, under `adding`, before `count` reaches `i` with release
// ordering; readers look only up to `count`.
unsafe impl Sync for CacheTable {}
// SAFETY: as for Sync.
unsafe impl Send for CacheTable {}

impl CacheTable {
    /// A table without caches.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            caches: [const { UnsafeCell::new(MaybeUninit::uninit()) }; MAX_CACHES],
            count: AtomicU32::new(0),
            kept_apart: AtomicU32::new(0),
            adding: CountedLock::new(()),
        }
    }

    /// Visits the lock of the table.
    pub fn visit_locks(&self, visit: &mut Visit<'_>) {
        visit("caches->adding", &self.adding);
    }

    /// Adds a cache whose slabs `layout` arranges, once `take_up` has accepted it. Where `merges`,
    /// and there is a cache whose objects are as far apart and so aligned as strictly, that one is
    /// returned and counts one more alias (`slab_merge`, Linux 2.6.22).
    ///
    /// # Errors
    /// `ENOSPC` where all numbers are in use, `EINVAL` where the size is 0, the alignment is no
    /// power of two or no slab of at most 4 MiB holds an object, or what `take_up` says.
    pub fn add(
        &self,
        name: &str,
        params: &CacheParams,
        merges: bool,
        layout: impl FnOnce(&CacheParams) -> SlabLayout,
        take_up: impl FnOnce(&Cache) -> OsResult<()>,
    ) -> OsResult<&Cache> {
        let _held = self.adding.lock();
        if merges && let Some(twin) = self.find_mergeable(params) {
            twin.add_alias();
            return Ok(twin);
        }
        let number = self.count() + 1;
        if number >= MAX_CACHES {
            return Err(OsError(libc::ENOSPC));
        }
        let cache = Cache::new(CacheId::new(number), name, params, layout)?;
        take_up(&cache)?;
        // SAFETY: we hold `adding` and `number > count`, so no thread reads this entry yet.
        unsafe { (*self.caches[number].get()).write(cache) };
        self.count.store(number as u32, Ordering::Release);
        Ok(self.get(CacheId::new(number)).expect("just added"))
    }

    /// A cache that objects with these parameters can share.
    fn find_mergeable(&self, params: &CacheParams) -> Option<&Cache> {
        let apart = self.kept_apart.load(Ordering::Relaxed) as usize;
        if !params.is_possible() {
            return None;
        }
        self.iter().find(|cache| cache.id().index() > apart && cache.stride() == params.stride())
    }

    /// Keeps all caches created so far from being shared by later ones.
    pub fn keep_apart(&self) {
        let _held = self.adding.lock();
        self.kept_apart.store(self.count.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The cache with this number, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self, id: CacheId) -> Option<&Cache> {
        // SAFETY: entries up to `count` are written and never change again.
        (id.index() <= self.count())
            .then(|| unsafe { (*self.caches[id.index()].get()).assume_init_ref() })
    }

    /// How many there are.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire) as usize
    }

    /// All caches, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Cache> + Clone {
        (1..=self.count()).filter_map(|number| self.get(CacheId::new(number)))
    }
}

impl Default for CacheTable {
    fn default() -> Self {
        Self::new()
    }
}
