//! The kernel's `kmem_cache` functions.

use super::call::Entry;
use super::instance::{Stack, StackConfig};
use super::misuse::Misuse;
use crate::frame::{FRAME_BYTES, Kind};
use crate::slab::{Cache, CacheId, MAX_BATCH, Reclaim, Remaining, SlabPolicy, SlabStats};
use core::mem::MaybeUninit;
use core::ops::Deref;
use quarry_sys::percpu::{Object, Push};
use quarry_sys::primitive::{Effort, Ordering, effort};

/// A cache of a stack. It dereferences to the [`Cache`] that describes its objects.
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
    /// The cache with this number, which [`create_cache`](Self::create_cache) returned; its use
    /// panics if it is gone. O(1).
    #[inline]
    pub fn cache(&self, id: CacheId) -> CacheRef<'_, C> {
        CacheRef { stack: self, id }
    }

    /// The cache with this number, if there is one. O(1).
    #[inline]
    pub fn find_cache(&self, id: CacheId) -> Option<&Cache> {
        self.caches.get(id)
    }

    /// Shrinks and removes a cache, or drops one alias if it has some. O(slots + frames).
    ///
    /// # Errors
    /// The objects that are in use; the cache then stays.
    ///
    /// # Safety
    /// During the call no other thread uses the cache, or is on a slow path of the stack
    /// (`libquarry.so` closes its gate). After success no thread uses the cache.
    pub unsafe fn destroy_cache(&self, id: CacheId) -> Result<(), Remaining> {
        let (inner, context, cache) = (self.inner(), self.context(), self.known_cache(id));
        if inner.caches.drop_alias(cache) {
            return Ok(());
        }
        inner.slab.reclaim(&context, Reclaim::Cache(cache));
        if inner.slab.stats(&context, cache).total_slabs > 0 {
            return Err(Remaining::of(&context, inner.slab, cache));
        }
        self.fast.geometry[id.index()].clear();
        self.fast.strides[id.index()].store(0, Ordering::Relaxed);
        // SAFETY: no other thread has a reference to it (caller's promise), and ours ends here.
        unsafe { inner.caches.remove(id) };
        Ok(())
    }
}

impl<C: StackConfig> CacheRef<'_, C> {
    #[inline]
    fn link(self) -> usize {
        if !C::Slab::LINKS_THROUGH_OBJECTS {
            return 0;
        }
        self.stack.fast.links[self.id.index()].load(Ordering::Relaxed) as usize
    }

    /// The address that callers get.
    #[inline]
    fn shown(self, start: Object) -> Object {
        // SAFETY: an object is larger than its link.
        unsafe { start.add(self.link()) }
    }

    /// The start of an object.
    ///
    /// # Safety
    /// `object` is an object of this cache.
    #[inline]
    unsafe fn start(self, object: Object) -> Object {
        // SAFETY: the link lies before the object (caller's promise).
        unsafe { object.sub(self.link()) }
    }

    /// Takes an object; `None` if there is no memory. O(1) if the running CPU has one.
    #[inline]
    pub fn alloc(self) -> Option<Object> {
        self.alloc_fast().or_else(|| self.alloc_slow())
    }

    /// The fast path of [`alloc`](Self::alloc): O(1), no lock. After `None`, call `alloc_slow`.
    #[inline]
    pub fn alloc_fast(self) -> Option<Object> {
        let fast = &self.stack.fast;
        // A stack that is not ready has no caches, and its slots must not be used.
        if !fast.geometry[self.id.index()].is_set() {
            return None;
        }
        C::Slab::alloc_fast(&fast.percpu, self.id).map(|start| self.shown(start))
    }

    /// Takes an object from any place that has one; `None` if there is no memory.
    #[cold]
    #[inline(never)]
    pub fn alloc_slow(self) -> Option<Object> {
        effort::spend(Effort::SlabSlow, 1);
        self.stack.alloc_reclaiming(self.id).map(|start| self.shown(start))
    }

    /// Same as [`alloc_slow`](Self::alloc_slow), without a reclaim.
    pub(super) fn alloc_without_reclaim(self) -> Option<Object> {
        Some(self.shown(self.stack.alloc_of_cache(self.id)?))
    }

    /// Frees an object; aborts if it was freed just before. O(1) if the running CPU has room.
    ///
    /// # Safety
    /// `object` was allocated from this cache of this stack, and its user has given it up.
    #[inline]
    pub unsafe fn free(self, object: Object) {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            if !self.free_fast(object) {
                self.free_slow(object);
            }
        }
    }

    /// The fast path of [`free`](Self::free): O(1), no lock. After false, call `free_slow`.
    ///
    /// # Safety
    /// Same as for [`free`](Self::free).
    #[inline]
    pub unsafe fn free_fast(self, object: Object) -> bool {
        let fast = &self.stack.fast;
        if self.stack.slab.looks_at_frees() {
            return false;
        }
        // SAFETY: it is an object of this cache (caller's promise).
        let start = unsafe { self.start(object) };
        let offset = start.as_ptr() as usize - fast.base.load(Ordering::Relaxed);
        let slab = || fast.geometry[self.id.index()].slab(offset);
        // SAFETY: the caller's promise is passed on; the cache's geometry gives the object's slab.
        match unsafe { C::Slab::free_fast(&fast.percpu, self.id, start, slab) } {
            Push::Stored => true,
            Push::Refused => false,
            Push::Duplicate => {
                self.stack.misuse(Entry::Free, object.as_ptr(), Misuse::NotInUse(self.id))
            }
        }
    }

    /// Frees an object that the fast path has refused.
    ///
    /// # Safety
    /// Same as for [`free`](Self::free).
    #[cold]
    #[inline(never)]
    pub unsafe fn free_slow(self, object: Object) {
        effort::spend(Effort::SlabSlow, 1);
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        // SAFETY: the caller's promise is passed on.
        unsafe {
            stack.inner().slab.free_slow(&stack.context(), cache, self.start(object));
        }
    }

    /// Aborts if no object of this cache, in use or free, starts at `address`. O(1).
    #[inline]
    pub fn demand(self, address: *mut u8) -> Object {
        self.object(address).unwrap_or_else(|| self.demand_slow(address))
    }

    /// The object of this cache at `address`, if it lies in the span that the fast path knows.
    #[inline]
    fn object(self, address: *mut u8) -> Option<Object> {
        let start = address.wrapping_sub(self.link());
        let (kind, ..) = self.stack.object_fast(start)?;
        if kind == self.id.kind().0 { Object::new(address) } else { None }
    }

    #[cold]
    #[inline(never)]
    fn demand_slow(self, address: *mut u8) -> Object {
        let stack = self.stack;
        let found = stack.pfn(address).map(|pfn| (pfn, stack.frames().kind(pfn)));
        // `pfn` has brought the span up to date.
        if let Some(object) = self.object(address) {
            return object;
        }
        let misuse = match found {
            None => Misuse::Foreign,
            Some((_, kind)) if kind == self.id.kind() => Misuse::InsideObject(self.id),
            Some((_, kind)) if kind.is_cache() => {
                Misuse::OtherCache { of: CacheId::new(usize::from(kind.0)), given: self.id }
            }
            Some((_, Kind::PAGES | Kind::MAPPING | Kind::SAMPLED))
                if (address as usize).is_multiple_of(FRAME_BYTES) =>
            {
                Misuse::NoObject(self.id)
            }
            Some((pfn, _)) => stack.unowned(pfn),
        };
        stack.misuse(Entry::CacheFree, address, misuse)
    }

    /// Fills the front of `out`; returns the number of objects, less than `out.len()` only if
    /// memory is short. O(objects).
    pub fn alloc_bulk(self, out: &mut [MaybeUninit<Object>]) -> usize {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        let slab = stack.inner().slab;
        let mut taken = slab.alloc_bulk(&stack.context(), cache, out);
        if taken < out.len() {
            let more = stack.after_reclaim(cache.order().frames(), || {
                let more = slab.alloc_bulk(&stack.context(), cache, &mut out[taken..]);
                (more > 0).then_some(more)
            });
            taken += more.unwrap_or(0);
        }
        if self.link() > 0 {
            for place in &mut out[..taken] {
                // SAFETY: the policy wrote the first `taken` elements.
                place.write(self.shown(unsafe { place.assume_init() }));
            }
        }
        taken
    }

    /// Frees objects. O(objects).
    ///
    /// # Safety
    /// The objects differ, were allocated from this cache, and their user has given them up.
    pub unsafe fn free_bulk(self, objects: &[Object]) {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        let (slab, context) = (stack.inner().slab, stack.context());
        if self.link() == 0 {
            // SAFETY: the caller's promise is passed on.
            return unsafe { slab.free_bulk(&context, cache, objects) };
        }
        let mut starts = [Object::dangling(); MAX_BATCH];
        for piece in objects.chunks(MAX_BATCH) {
            for (start, object) in starts.iter_mut().zip(piece) {
                // SAFETY: it is an object of this cache (caller's promise).
                *start = unsafe { self.start(*object) };
            }
            // SAFETY: the caller's promise is passed on.
            unsafe { slab.free_bulk(&context, cache, &starts[..piece.len()]) };
        }
    }

    /// Empties slots and barns into slabs, and gives empty slabs back. O(slots + objects).
    pub fn shrink(self) {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        stack.inner().slab.reclaim(&stack.context(), Reclaim::Cache(cache));
    }

    /// Visits every object that is free in its slab; call `shrink` first. O(frames + objects).
    pub fn visit_free(self, visit: &mut dyn FnMut(Object)) {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        let context = stack.context();
        for slab in context.slabs_of(cache) {
            let start = stack.inner().pages.arena().address(slab);
            stack.inner().slab.visit_free(&context, cache, slab, &mut |number| {
                assert!(number < cache.objects(), "a slab has no object {number}");
                // SAFETY: the slab is the cache's, and `number < objects()`.
                visit(unsafe { cache.object_at(start, number) });
            });
        }
    }

    /// The counts of the cache. O(slots).
    #[must_use]
    pub fn stats(self) -> SlabStats {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        stack.inner().slab.stats(&stack.context(), cache)
    }
}
