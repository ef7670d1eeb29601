//! Caches of objects without a type, like the kernel's `kmem_cache_create`.

use crate::error::{Error, OsError};
use crate::instance::STACK;
use crate::process;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use quarry_mm::slab::{Cache, CacheId, CacheOptions, CacheParams, Remaining, SlabStats};
use quarry_mm::stack::{NotFreed, StackHost};
use quarry_sys::clear::clear;
use quarry_sys::errno::KeepErrno;
use quarry_sys::own_stack;

/// Number of a handle's low bits, which hold the cache's id; its generation is above them.
const ID_BITS: u32 = u32::BITS;

fn refusal(error: OsError, &CacheParams { size, align }: &CacheParams) -> Error {
    match error.0 {
        libc::EINVAL => Error::BadLayout { size, align },
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
    /// Creates a cache. Some policies let caches share slabs; each cache is still destroyed alone.
    ///
    /// # Errors
    /// The reason why the cache was not created.
    pub fn create(name: &str, params: &CacheParams, options: &CacheOptions) -> Result<Self, Error> {
        process::serving()?;
        // Where frees are checked, no CPU keeps objects, so an object freed twice is always found.
        let loose = options.loose || STACK.instruments.see_frees();
        let options = CacheOptions { loose, ..*options };
        let id = process::giving_back(|| STACK.create_cache(name, params, &options));
        let id = id.map_err(|error| refusal(error, params))?;
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
        let id = CacheId::try_from(handle as u32).ok()?;
        let generation = (handle >> ID_BITS) as u32;
        let cache = STACK.caches.get(id)?;
        (cache.generation() == generation).then_some(Self { id, generation })
    }

    /// A number for this cache, never 0, that no other cache of the process ever gets.
    #[must_use]
    pub fn handle(self) -> usize {
        (self.generation as usize) << ID_BITS | u32::from(self.id) as usize
    }

    /// The number of the cache, for mappings in which each page has an object of the cache.
    #[must_use]
    pub fn id(self) -> CacheId {
        self.id
    }

    fn info(&self) -> &Cache {
        STACK.caches.get(self.id).expect("the cache has not been destroyed")
    }

    /// The name of the cache, as statistics show it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.info().name()
    }

    /// Usable bytes of an object: the requested ones, rounded up.
    #[must_use]
    pub fn object_bytes(self) -> usize {
        self.info().object_bytes()
    }

    /// Returns whether a constructor has run for each object.
    #[must_use]
    pub fn has_constructor(self) -> bool {
        self.info().has_constructor()
    }

    /// Takes an object: memory with any contents, or an object in the state of the constructor.
    /// `None` if there is no memory. O(1) if the running CPU has an object.
    #[inline]
    #[must_use]
    pub fn alloc(self) -> Option<NonNull<u8>> {
        STACK.fast.alloc_of(self.id).or_else(|| self.alloc_missed())
    }

    #[cold]
    #[inline(never)]
    fn alloc_missed(self) -> Option<NonNull<u8>> {
        let cache = STACK.cache(self.id);
        process::serve(cache.order().bytes(), || cache.alloc())
    }

    /// Like [`alloc`](Self::alloc), all bytes 0. `None` with a constructor: zeroes undo its work.
    #[must_use]
    pub fn alloc_zeroed(self) -> Option<NonNull<u8>> {
        if self.has_constructor() {
            return None;
        }
        let object = self.alloc()?;
        // SAFETY: the object has this many bytes, and no other code knows it.
        unsafe { clear(object, self.object_bytes()) };
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
            if let Err(refusal) = STACK.fast.free_of(self.id, object) {
                self.free_refused(object, refusal);
            }
        }
    }

    /// # Safety
    /// Same as [`free`](Self::free).
    #[cold]
    #[inline(never)]
    unsafe fn free_refused(self, object: NonNull<u8>, refusal: NotFreed) {
        // SAFETY: the caller's promise is passed on.
        process::giving_back(|| unsafe { STACK.free_refused(object, refusal) });
    }

    /// Aborts with one line if no object of this cache starts at `address`.
    #[inline]
    pub fn demand(self, address: *mut u8) -> NonNull<u8> {
        STACK.cache(self.id).demand(address)
    }

    /// Fills the front of `out` with objects and returns their number: all, unless
    /// [`alloc`](Self::alloc) fails or the machine could never hold so many. O(objects).
    pub fn alloc_bulk(self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let cache = STACK.cache(self.id);
        let bytes = out.len().saturating_mul(cache.stride());
        let taken = process::on_instance(bytes, || cache.alloc_bulk(out));
        let Some(mut taken) = taken else { return 0 };
        // The only free objects may be in the slots of other CPUs.
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
    /// Same as [`free`](Self::free) for each object, and no object occurs twice.
    pub unsafe fn free_bulk(self, objects: &[NonNull<u8>]) {
        // SAFETY: the caller's promise is passed on.
        process::giving_back(|| unsafe { STACK.free_objects(self.id, objects) });
    }

    /// Gives back unused memory, while other threads wait at slow paths. O(slots + objects).
    pub fn shrink(self) {
        process::exclusively(|| own_stack::run(|| STACK.cache(self.id).shrink()));
    }

    /// The counts of the cache: a snapshot. O(slots).
    #[must_use]
    pub fn stats(self) -> SlabStats {
        process::giving_back(|| STACK.cache(self.id).stats())
    }

    /// Shrinks and destroys the cache, while other threads wait at a slow path. O(slots + frames).
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
