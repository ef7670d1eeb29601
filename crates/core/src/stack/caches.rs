//! The objects of one cache: the kernel's `kmem_cache` functions.

use super::config::StackConfig;
use super::instance::Stack;
use super::misuse::{Entry, Misuse};
use crate::slab::{Cache, CacheId, Reclaim, SlabPolicy, SlabStats};
use core::mem::MaybeUninit;
use core::ops::Deref;
use quarry_sys::percpu::{Object, Push};
use quarry_sys::primitive::Ordering;

/// A cache of a stack. As a [`Cache`], which it dereferences to, it says how its objects lie.
pub struct CacheRef<'a, C: StackConfig> {
    stack: &'a Stack<C>,
    id: CacheId,
}

impl<C: StackConfig> Clone for CacheRef<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: StackConfig> Copy for CacheRef<'_, C> {}

impl<C: StackConfig> Deref for CacheRef<'_, C> {
    type Target = Cache;

    fn deref(&self) -> &Cache {
        self.stack.known_cache(self.id)
    }
}

impl<C: StackConfig> Stack<C> {
    /// The cache with this number, which [`create_cache`](Self::create_cache) has returned. Using
    /// it panics where there is no such cache. O(1).
    #[inline]
    pub fn cache(&self, id: CacheId) -> CacheRef<'_, C> {
        CacheRef { stack: self, id }
    }

    /// # Panics
    /// Where there is no such cache.
    pub(super) fn known_cache(&self, id: CacheId) -> &Cache {
        self.inner().caches.get(id).expect("cache numbers come from create_cache")
    }
}

impl<C: StackConfig> CacheRef<'_, C> {
    /// Takes an object, or `None` where there is no memory. O(1) where the running CPU has one.
    #[inline]
    pub fn alloc(self) -> Option<Object> {
        let fast = &self.stack.fast;
        // A stack that is not ready has no caches, and no slots that may be used yet.
        if fast.geometry[self.id.index()].is_set()
            && let Some(object) = C::Slab::alloc_fast(&fast.percpu, self.id)
        {
            return Some(object);
        }
        self.alloc_slow()
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(self) -> Option<Object> {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        let frames = cache.order().frames();
        stack.with_reclaim(frames, || stack.inner().slab.alloc_slow(&stack.context(), cache))
    }

    /// Gives an object back. O(1) where the running CPU has room for it. Aborts where it was freed
    /// a moment ago.
    ///
    /// # Safety
    /// `object` was allocated from this cache of this stack, and its user has given it up.
    #[inline]
    pub unsafe fn free(self, object: Object) {
        let fast = &self.stack.fast;
        if self.stack.slab.looks_at_frees() {
            // SAFETY: the caller's promise is passed on.
            return unsafe { self.free_slow(object) };
        }
        let offset = object.as_ptr() as usize - fast.base.load(Ordering::Relaxed);
        let slab = || fast.geometry[self.id.index()].slab(offset);
        // SAFETY: the caller's promise is passed on; `slab` follows from the cache's geometry.
        match unsafe { C::Slab::free_fast(&fast.percpu, self.id, object, slab) } {
            Push::Stored => {}
            // SAFETY: the caller's promise is passed on.
            Push::Refused => unsafe { self.free_slow(object) },
            Push::Duplicate => {
                self.stack.misuse(Entry::Free, object.as_ptr(), Misuse::NotInUse(self.id))
            }
        }
    }

    /// # Safety
    /// As [`free`](Self::free).
    #[cold]
    #[inline(never)]
    unsafe fn free_slow(self, object: Object) {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        // SAFETY: the caller's promise is passed on.
        unsafe { stack.inner().slab.free_slow(&stack.context(), cache, object) };
    }

    /// Fills the front of `out` with objects; returns how many, fewer than asked only where memory
    /// is short. O(objects).
    pub fn alloc_bulk(self, out: &mut [MaybeUninit<Object>]) -> usize {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        let slab = stack.inner().slab;
        let taken = slab.alloc_bulk(&stack.context(), cache, out);
        if taken == out.len() {
            return taken;
        }
        let more = stack.after_reclaim(cache.order().frames(), || {
            let more = slab.alloc_bulk(&stack.context(), cache, &mut out[taken..]);
            (more > 0).then_some(more)
        });
        taken + more.unwrap_or(0)
    }

    /// Gives objects back. O(objects).
    ///
    /// # Safety
    /// All were allocated from this cache of this stack, differ, and their user has given them up.
    pub unsafe fn free_bulk(self, objects: &[Object]) {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        // SAFETY: the caller's promise is passed on.
        unsafe { stack.inner().slab.free_bulk(&stack.context(), cache, objects) };
    }

    /// Takes everything out of the slots and barns and returns empty slabs to the page allocator.
    /// O(slots + objects).
    pub fn shrink(self) {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        stack.inner().slab.reclaim(&stack.context(), Reclaim::Cache(cache));
    }

    /// The counts of the cache. O(slots).
    #[must_use]
    pub fn stats(self) -> SlabStats {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        stack.inner().slab.stats(&stack.context(), cache)
    }
}
