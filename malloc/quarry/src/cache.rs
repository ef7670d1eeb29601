//! Caches of values of one type.

use crate::error::Error;
use crate::raw_cache::RawCache;
use crate::raw_reserve::RawReserve;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use quarry_mm::slab::{CacheOptions, CacheParams, Remaining, SlabStats};
use quarry_sys::report::warn;

pub(crate) fn params_of<T>() -> CacheParams {
    // Values of size 0 have distinct addresses too.
    CacheParams { size: size_of::<T>().max(1), align: align_of::<T>() }
}

/// Destroys a cache when its owner is dropped; prints a line if objects of it are still in use.
pub(crate) fn destroy_or_report(raw: RawCache) {
    // SAFETY: the owner has no users any more, because users borrow it.
    if let Err(remaining) = unsafe { raw.destroy() } {
        warn(format_args!("cache {} is not destroyed: {remaining}", raw.name()));
    }
}

/// Memory for values of one type: a safe form of the kernel's `kmem_cache`.
///
/// ```
/// struct Packet { length: usize, payload: [u8; 1500] }
///
/// let packets = quarry::Cache::new("packets")?;
/// let mut packet = packets.alloc(Packet { length: 0, payload: [0; 1500] }).ok().unwrap();
/// packet.payload[..5].copy_from_slice(b"hello");
/// packet.length = 5;
/// drop(packet);
/// assert_eq!(packets.stats().frees(), 1);
/// # Ok::<(), quarry::Error>(())
/// ```
///
/// Values of one type are together in slabs that no other type uses. Each CPU keeps some free
/// objects. Statistics show the cache by its name. A cache works whether or not
/// [`Quarry`](crate::Quarry) is the global allocator.
///
/// Boxes borrow their cache, so the cache cannot be dropped before them:
///
/// ```compile_fail
/// let packets = quarry::Cache::new("packets").unwrap();
/// let packet = packets.alloc([0u8; 100]);
/// drop(packets);
/// drop(packet);
/// ```
pub struct Cache<T> {
    raw: RawCache,
    values: PhantomData<fn(T) -> T>,
}

impl<T> Cache<T> {
    /// Creates a cache. Statistics show the first 24 bytes of its name.
    ///
    /// # Errors
    /// The reason why the cache was not created.
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::with(name, params_of::<T>(), &CacheOptions::default())
    }

    /// Creates a cache whose values share as few cache lines as possible.
    ///
    /// # Errors
    /// The reason why the cache was not created.
    pub fn hardware_aligned(name: &str) -> Result<Self, Error> {
        Self::with(name, params_of::<T>().hardware_aligned(), &CacheOptions::default())
    }

    /// Creates a cache that shares its slabs with no other cache, under any slab policy.
    ///
    /// # Errors
    /// The reason why the cache was not created.
    pub fn unmerged(name: &str) -> Result<Self, Error> {
        let options = CacheOptions { unmerged: true, ..CacheOptions::default() };
        Self::with(name, params_of::<T>(), &options)
    }

    fn with(name: &str, params: CacheParams, options: &CacheOptions) -> Result<Self, Error> {
        let raw = RawCache::create(name, &params, options)?;
        Ok(Self { raw, values: PhantomData })
    }

    /// Moves a value into an object. O(1) if the running CPU has an object.
    ///
    /// # Errors
    /// The value, if there is no memory.
    #[inline]
    pub fn alloc(&self, value: T) -> Result<CacheBox<'_, T>, T> {
        match self.raw.alloc() {
            Some(object) => Ok(self.boxed(object, value)),
            None => Err(value),
        }
    }

    #[inline]
    fn boxed(&self, object: NonNull<u8>, value: T) -> CacheBox<'_, T> {
        let place = object.cast::<T>();
        // SAFETY: objects of the cache have the size and the alignment of a T, and this one is new.
        unsafe { place.write(value) };
        CacheBox { place, raw: self.raw, cache: PhantomData }
    }

    /// Takes `count` objects in advance for requests that must not fail. `None` if there is no
    /// memory for all of them, or above [`RawReserve::MOST`] (4,092). O(objects).
    ///
    /// ```
    /// let nodes = quarry::Cache::new("nodes")?;
    /// let mut reserve = nodes.prefill(2).expect("there is memory for two");
    /// let (left, right) = (reserve.alloc(1u64), reserve.alloc(2));
    /// assert_eq!(*left.unwrap() + *right.unwrap(), 3);
    /// assert!(reserve.alloc(3).is_err(), "there were two");
    /// # Ok::<(), quarry::Error>(())
    /// ```
    #[must_use]
    pub fn prefill(&self, count: usize) -> Option<Reserve<'_, T>> {
        RawReserve::of(self.raw, count).map(|raw| Reserve { raw, cache: self })
    }

    /// Gives back unused memory, while other threads wait at slow paths. O(slots + objects).
    pub fn shrink(&self) {
        self.raw.shrink();
    }

    /// The counts of the cache. O(slots).
    #[must_use]
    pub fn stats(&self) -> SlabStats {
        self.raw.stats()
    }

    /// Destroys the cache, like a drop, but on failure returns an error instead of printing a line.
    ///
    /// # Errors
    /// The number of objects whose boxes were forgotten instead of dropped. They keep their memory.
    pub fn destroy(self) -> Result<(), Remaining> {
        let cache = ManuallyDrop::new(self);
        // SAFETY: boxes borrow the cache, so there are no boxes any more.
        unsafe { cache.raw.destroy() }
    }
}

impl<T> Drop for Cache<T> {
    fn drop(&mut self) {
        destroy_or_report(self.raw);
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Cache").field("name", &self.raw.name()).finish_non_exhaustive()
    }
}

/// Gives the owner of an object of a cache the use of its value, as a `Box` does.
macro_rules! like_a_box {
    ($name:ident) => {
        // SAFETY: this owns its value, like Box; the cache takes objects from any thread.
        unsafe impl<T: Send> Send for $name<'_, T> {}
        // SAFETY: a shared reference gives only shared references to the value.
        unsafe impl<T: Sync> Sync for $name<'_, T> {}

        impl<T> Deref for $name<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: the place holds a value until this is dropped.
                unsafe { self.place.as_ref() }
            }
        }

        impl<T> DerefMut for $name<'_, T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: the place holds a value until this is dropped; the borrow is unique.
                unsafe { self.place.as_mut() }
            }
        }

        impl<T: fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, out)
            }
        }
    };
}
pub(crate) use like_a_box;

/// A value in an object of a [`Cache`]. Dropping this gives the object back to the cache.
pub struct CacheBox<'a, T> {
    place: NonNull<T>,
    raw: RawCache,
    cache: PhantomData<(&'a Cache<T>, T)>,
}

like_a_box!(CacheBox);

impl<T> CacheBox<'_, T> {
    /// Moves the value out, and gives the object back.
    #[must_use]
    pub fn into_inner(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: the value is ours, and is moved out once: the box is not dropped.
        unsafe {
            let value = this.place.read();
            this.raw.free(this.place.cast());
            value
        }
    }
}

impl<T> Drop for CacheBox<'_, T> {
    #[inline]
    fn drop(&mut self) {
        /// Gives the object back, even if its value panics when it is dropped.
        struct Object(RawCache, NonNull<u8>);
        impl Drop for Object {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: its value is gone, and no other code knows the object.
                unsafe { self.0.free(self.1) };
            }
        }
        let _object = Object(self.raw, self.place.cast());
        // SAFETY: the place holds a value, which no other code uses any more.
        unsafe { self.place.drop_in_place() };
    }
}

/// Objects of a [`Cache`] that were taken in advance; unused objects go back when this is dropped.
#[derive(Debug)]
pub struct Reserve<'a, T> {
    raw: RawReserve,
    cache: &'a Cache<T>,
}

impl<'a, T> Reserve<'a, T> {
    /// Moves a value into one of the objects. O(1), and never fails for lack of memory.
    ///
    /// # Errors
    /// The value, if all objects have been used.
    #[inline]
    pub fn alloc(&mut self, value: T) -> Result<CacheBox<'a, T>, T> {
        match self.raw.take() {
            Some(object) => Ok(self.cache.boxed(object, value)),
            None => Err(value),
        }
    }

    /// Number of unused objects.
    #[must_use]
    pub fn left(&self) -> usize {
        self.raw.left()
    }
}
