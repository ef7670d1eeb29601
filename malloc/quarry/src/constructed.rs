//! Caches of values that are constructed once and reused.

use crate::cache::{destroy_or_report, like_a_box, params_of};
use crate::error::Error;
use crate::raw_cache::RawCache;
use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;
use core::mem::needs_drop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use quarry_mm::slab::{CacheOptions, Constructor, SlabStats};

/// A cache of values that a constructor makes once, when their slab is made. A caller gets a value
/// as its last user left it (Bonwick 1994; `ctor` of `kmem_cache_create`).
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// static MADE: AtomicU32 = AtomicU32::new(0);
/// let tables = quarry::ConstructedCache::new("tables", || {
///     MADE.fetch_add(1, Ordering::Relaxed);
///     [0u32; 256]
/// })?;
/// for _ in 0..1000 {
///     let mut table = tables.alloc().expect("there is memory");
///     table[7] += 1;
/// }
/// assert!(MADE.load(Ordering::Relaxed) < 1000, "the same values served again and again");
/// # Ok::<(), quarry::Error>(())
/// ```
///
/// A slab goes back to the system without dropping its values, so a value must not need a drop.
/// Threads that use the cache exchange values, so values must be [`Send`].
pub struct ConstructedCache<T> {
    raw: RawCache,
    values: PhantomData<fn(T) -> T>,
}

/// Makes the value of one object.
///
/// # Safety
/// `object` has the size and the alignment of a T and belongs to the caller; a value of type `F`
/// existed, and was never dropped.
unsafe extern "C" fn construct<T, F: Fn() -> T>(object: *mut c_void) {
    // A panic ends here: it does not unwind through a function of C.
    // SAFETY: `F` has size 0, so any aligned address is one of its value, which is never dropped;
    // the object is ours (caller's promises).
    unsafe {
        let constructor = NonNull::<F>::dangling();
        object.cast::<T>().write(constructor.as_ref()());
    }
}

impl<T: Send> ConstructedCache<T> {
    /// Creates a cache. `constructor`, a function or a closure that captures nothing, runs on any
    /// thread that needs a slab; it may use the heap, but no cache that the program has created,
    /// and must not wait for a thread that uses one. If it panics, the process aborts.
    ///
    /// # Errors
    /// The reason why the cache was not created.
    pub fn new<F>(name: &str, constructor: F) -> Result<Self, Error>
    where
        F: Fn() -> T + Send + Sync + 'static,
    {
        const {
            assert!(size_of::<F>() == 0, "a constructor captures nothing");
            assert!(!needs_drop::<T>(), "values that were constructed are never dropped");
        }
        core::mem::forget(constructor);
        // SAFETY: `construct` gets objects as it requires, does not unwind, and only calls the
        // caller's function, whose duties are documented above.
        let constructor = unsafe { Constructor::new(construct::<T, F>) };
        let options = CacheOptions { constructor: Some(constructor), ..CacheOptions::default() };
        let raw = RawCache::create(name, &params_of::<T>(), &options)?;
        Ok(Self { raw, values: PhantomData })
    }

    /// Takes a value: a new one, or one in the state in which its last user left it. `None` if
    /// there is no memory. O(1) if the running CPU has an object.
    #[inline]
    #[must_use]
    pub fn alloc(&self) -> Option<CacheGuard<'_, T>> {
        let place = self.raw.alloc()?.cast();
        Some(CacheGuard { place, raw: self.raw, cache: PhantomData })
    }

    /// Gives back the unused memory of the cache, with the values in it, while each other thread
    /// waits at its next slow path. O(slots + objects).
    pub fn shrink(&self) {
        self.raw.shrink();
    }

    /// The counts of the cache. O(slots).
    #[must_use]
    pub fn stats(&self) -> SlabStats {
        self.raw.stats()
    }
}

impl<T> Drop for ConstructedCache<T> {
    fn drop(&mut self) {
        destroy_or_report(self.raw);
    }
}

impl<T> fmt::Debug for ConstructedCache<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.raw.name();
        out.debug_struct("ConstructedCache").field("name", &name).finish_non_exhaustive()
    }
}

/// A value of a [`ConstructedCache`], which goes back when this is dropped.
pub struct CacheGuard<'a, T> {
    place: NonNull<T>,
    raw: RawCache,
    cache: PhantomData<(&'a ConstructedCache<T>, T)>,
}

like_a_box!(CacheGuard);

impl<T> Drop for CacheGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the object came from this cache, and its value stays in it.
        unsafe { self.raw.free(self.place.cast()) };
    }
}
