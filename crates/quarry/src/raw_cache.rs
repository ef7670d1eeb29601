//! Caches of objects without a type: `kmem_cache_create` and its relatives for a process.

use crate::error::{Error, OsError};
use crate::instance::STACK;
use crate::process;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use quarry_mm::slab::{
    Cache, CacheId, CacheOptions, CacheParams, MAX_CACHES, Remaining, SlabStats,
};
use quarry_sys::clear::clear;
use quarry_sys::errno::KeepErrno;
use quarry_sys::own_stack;

/// Bits of a handle for the number of the cache; the generation is in the bits above.
const NUMBER_BITS: u32 = 8;
const _: () = assert!(MAX_CACHES <= 1 << NUMBER_BITS);

fn refusal(error: OsError) -> Error {
    match error.0 {
        libc::EINVAL => Error::BadLayout,
        libc::ENOSPC | libc::EBUSY => Error::TooMany,
        _ => Error::NoMemory,
    }
}

/// A cache of untyped objects of the process. It is a number and may be copied; the cache lives
/// until [`destroy`](Self::destroy). [`Cache`](crate::Cache) is the safe and typed interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawCache {
    id: CacheId,
    generation: u32,
}

impl RawCache {
    /// Creates a cache. If the slab policy merges caches, it may share an existing cache; even then
    /// each is destroyed separately.
    ///
    /// # Errors
    /// The reason why the cache was not created.
    ///
    /// # Safety
    /// A constructor may be called with the address of `params.size` bytes at a multiple of
    /// `params.align`, on any thread, until the cache is destroyed. It neither unwinds nor uses
    /// caches, and does not wait for a thread that does. (It may allocate from the heap.)
    pub unsafe fn create(
        name: &str,
        params: &CacheParams,
        options: &CacheOptions,
    ) -> Result<Self, Error> {
        process::serving()?;
        let id = process::giving_back(|| {
            // SAFETY: the caller's promise is passed on.
            unsafe { STACK.create_cache_with(name, params, options) }
        })
        .map_err(refusal)?;
        let generation = STACK.cache(id).generation();
        Ok(Self { id, generation })
    }

    /// The cache with this handle; `None` if it was destroyed, or never existed.
    ///
    /// # Safety
    /// No other thread destroys the cache before this thread has used the result for the last time.
    /// If the handle has no cache, no other thread creates or destroys a cache during the call.
    #[must_use]
    pub unsafe fn of_handle(handle: usize) -> Option<Self> {
        let number = handle & ((1 << NUMBER_BITS) - 1);
        if number == 0 || number >= MAX_CACHES {
            return None;
        }
        let id = CacheId::new(number);
        let generation = u32::try_from(handle >> NUMBER_BITS).ok()?;
        let cache = STACK.find_cache(id)?;
        (cache.generation() == generation).then_some(Self { id, generation })
    }

    /// A number for this cache, never 0, which no other cache of the process ever gets.
    #[must_use]
    pub fn handle(self) -> usize {
        (self.generation as usize) << NUMBER_BITS | self.id.index()
    }

    /// The number of the cache, for mappings whose pages each have an object of it.
    #[must_use]
    pub fn id(self) -> CacheId {
        self.id
    }

    /// The description of the cache's objects.
    #[must_use]
    pub fn info(&self) -> &Cache {
        STACK.find_cache(self.id).expect("the cache has not been destroyed")
    }

    /// Takes an object: memory with any contents, or an object in the state of the constructor.
    /// `None` if there is no memory. O(1) if the running CPU has an object.
    #[inline]
    #[must_use]
    pub fn alloc(self) -> Option<NonNull<u8>> {
        STACK.cache(self.id).alloc_fast().or_else(|| self.alloc_missed())
    }

    #[cold]
    #[inline(never)]
    fn alloc_missed(self) -> Option<NonNull<u8>> {
        let cache = STACK.cache(self.id);
        process::serve(cache.order().bytes(), || cache.alloc_slow())
    }

    /// Like [`alloc`](Self::alloc), with all bytes 0. Also `None` if the cache has a constructor,
    /// whose work this would destroy.
    #[must_use]
    pub fn alloc_zeroed(self) -> Option<NonNull<u8>> {
        if self.info().has_constructor() {
            return None;
        }
        let object = self.alloc()?;
        // SAFETY: the object has this many bytes, and no other code knows it.
        unsafe { clear(object, self.info().object_bytes()) };
        Some(object)
    }

    /// Gives an object back. O(1) if the running CPU has room for it.
    ///
    /// # Safety
    /// `object` was allocated from this cache, and its user has given it up. If the cache has a
    /// constructor, the object is in the state in which the constructor leaves objects.
    #[inline]
    pub unsafe fn free(self, object: NonNull<u8>) {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            if !STACK.cache(self.id).free_fast(object) {
                self.free_missed(object);
            }
        }
    }

    /// # Safety
    /// Same as [`free`](Self::free).
    #[cold]
    #[inline(never)]
    unsafe fn free_missed(self, object: NonNull<u8>) {
        // SAFETY: the caller's promise is passed on.
        process::giving_back(|| unsafe { STACK.cache(self.id).free_slow(object) });
    }

    /// Aborts with one line if no object of this cache starts at `address`.
    #[inline]
    pub fn demand(self, address: *mut u8) -> NonNull<u8> {
        STACK.cache(self.id).demand(address)
    }

    /// Fills the front of `out` with objects and returns their number. It is less than asked only
    /// if [`alloc`](Self::alloc) fails, or the machine could never hold so many. O(objects).
    pub fn alloc_bulk(self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let cache = STACK.cache(self.id);
        let bytes = out.len().saturating_mul(cache.stride());
        let taken = process::on_instance(bytes, || cache.alloc_bulk(out));
        let Some(mut taken) = taken else { return 0 };
        // Other CPUs may hold the only free objects.
        while let Some(place) = out.get_mut(taken)
            && let Some(object) = self.alloc()
        {
            place.write(object);
            taken += 1;
        }
        taken
    }

    /// Gives objects back. O(objects).
    ///
    /// # Safety
    /// Same as [`free`](Self::free) for each object, and no object is given twice.
    pub unsafe fn free_bulk(self, objects: &[NonNull<u8>]) {
        // SAFETY: the caller's promise is passed on.
        process::giving_back(|| unsafe { STACK.cache(self.id).free_bulk(objects) });
    }

    /// Gives back memory of the cache that is not in use. Each other thread waits at its next slow
    /// path while this runs. O(slots + objects).
    pub fn shrink(self) {
        process::exclusively(|| own_stack::run(|| STACK.cache(self.id).shrink()));
    }

    /// The counts of the cache: a snapshot. O(slots).
    #[must_use]
    pub fn stats(self) -> SlabStats {
        process::giving_back(|| STACK.cache(self.id).stats())
    }

    /// Shrinks and destroys the cache. Each other thread waits at its next slow path while this
    /// runs. O(slots + frames).
    ///
    /// # Errors
    /// The objects that are in use; then the cache stays.
    ///
    /// # Safety
    /// No other code uses the cache during the call, and no code at all after success.
    pub unsafe fn destroy(self) -> Result<(), Remaining> {
        let _errno = KeepErrno::new();
        // SAFETY: no other thread is on a slow path; the caller promises the rest.
        process::exclusively(|| unsafe { STACK.destroy_cache(self.id) })
    }
}
