//! The kernel's `kmem_cache` functions.

use super::call::{Entry, Misuse};
use super::fast_path::NotFreed;
use super::instance::{Stack, StackConfig};
use super::owner::Owner;
use crate::slab::{Cache, CacheId, MAX_BATCH, Reclaim, Remaining, SlabPolicy, SlabStats};
use core::mem::MaybeUninit;
use core::ops::Deref;
use quarry_sys::percpu::Object;
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
    /// The cache with this number, which [`create_cache`](super::StackHost::create_cache) returned;
    /// using it panics if the cache is gone. O(1).
    #[inline]
    pub fn cache(&self, id: CacheId) -> CacheRef<'_, C> {
        CacheRef { stack: self, id }
    }

    /// Takes the start of an object of a cache whose array is empty.
    #[inline]
    pub(super) fn alloc_reclaiming(&self, cache: CacheId) -> Option<Object> {
        let object = self.alloc_of_cache(cache);
        if object.is_some() { object } else { self.alloc_reclaimed(cache) }
    }

    #[cold]
    #[inline(never)]
    fn alloc_reclaimed(&self, cache: CacheId) -> Option<Object> {
        let frames = self.known_cache(cache).order().frames();
        self.after_reclaim(frames, || self.alloc_of_cache(cache))
    }

    #[inline(never)]
    pub(super) fn alloc_of_cache(&self, cache: CacheId) -> Option<Object> {
        self.slab.alloc_from_slabs(self.context().with(self.caches.get(cache)?))
    }

    /// Shrinks and removes a cache, or drops one alias if it has some. O(slots + frames).
    ///
    /// # Errors
    /// The objects that are in use. The cache then stays.
    ///
    /// # Safety
    /// During the call no other thread uses the cache, or is on a slow path of the stack
    /// (`libquarry.so` closes its gate). After success no thread uses the cache.
    pub unsafe fn destroy_cache(&self, id: CacheId) -> Result<(), Remaining> {
        let (context, cache) = (self.context(), self.known_cache(id));
        if self.caches.drop_alias(cache) {
            return Ok(());
        }
        self.slab.reclaim(&context, Reclaim::Cache(cache));
        if self.slab.stats(context.with(cache)).total_slabs > 0 {
            return Err(Remaining::of(&*self.slab, context.with(cache)));
        }
        // Nothing changes for a loose cache: the geometry of their number is always that of none.
        self.fast.geometry[id.index()].clear();
        self.fast.strides[id.index()].store(0, Ordering::Relaxed);
        // SAFETY: no other thread has a reference to the cache (caller's promise); ours ends here.
        unsafe { self.caches.remove(id) };
        Ok(())
    }
}

impl<C: StackConfig> CacheRef<'_, C> {
    /// The address that callers get for the object that starts at `start`.
    #[inline]
    fn shown(self, start: Object) -> Object {
        // SAFETY: an object is larger than its link, so the sum lies inside the object.
        unsafe { start.add(self.stack.fast.link(self.id)) }
    }

    /// The start of an object. Callers know only the address after the object's link.
    ///
    /// # Safety
    /// `object` is an object of this cache.
    #[inline]
    pub(super) unsafe fn start(self, object: Object) -> Object {
        // SAFETY: the link lies before the object (caller's promise).
        unsafe { object.sub(self.stack.fast.link(self.id)) }
    }

    /// Takes an object; `None` if there is no memory. O(1) if the running CPU has one.
    #[inline]
    pub fn alloc(self) -> Option<Object> {
        self.stack.fast.alloc_of(self.id).or_else(|| self.alloc_slow())
    }

    /// Takes an object without a reclaim.
    pub(super) fn alloc_held(self) -> Option<Object> {
        let object = self.stack.fast.alloc_of(self.id);
        object.or_else(|| self.stack.alloc_of_cache(self.id).map(|start| self.shown(start)))
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(self) -> Option<Object> {
        effort::spend(Effort::SlabSlow, 1);
        self.stack.alloc_reclaiming(self.id).map(|start| self.shown(start))
    }

    /// Frees an object; aborts if it was freed just before. O(1) if the running CPU has room.
    ///
    /// # Safety
    /// `object` was allocated from this cache of this stack, and its user has given it up.
    #[inline]
    pub unsafe fn free(self, object: Object) {
        // SAFETY: the caller's promise is passed on.
        match unsafe { self.stack.fast.free_of(self.id, object) } {
            Ok(()) => {}
            // SAFETY: as above.
            Err(NotFreed::Full(_)) => unsafe { self.free_slow(object) },
            Err(_) => self.stack.misuse(Entry::Free, object.as_ptr(), Misuse::NotInUse(self.id)),
        }
    }

    /// [`free`](Self::free) of an object for which the running CPU has no room.
    ///
    /// # Safety
    /// Same as for [`free`](Self::free).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn free_slow(self, object: Object) {
        effort::spend(Effort::SlabSlow, 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { self.stack.slab.free_slow(self.stack.context().with(&self), self.start(object)) };
    }

    /// Aborts if no object of this cache, in use or free, starts at `address`. O(1).
    #[inline]
    pub fn demand(self, address: *mut u8) -> Object {
        self.object(address).unwrap_or_else(|| self.demand_slow(address))
    }

    /// The object of this cache at `address`, if it lies in the span that the fast path knows.
    #[inline]
    fn object(self, address: *mut u8) -> Option<Object> {
        let start = address.wrapping_sub(self.stack.fast.link(self.id));
        let (kind, ..) = self.stack.fast.object(start)?;
        if kind == self.id.kind().0 { Object::new(address) } else { None }
    }

    /// [`demand`](Self::demand), also for a part of the window that the fast path does not know: it
    /// knows none while an instrument sees frees.
    #[cold]
    #[inline(never)]
    fn demand_slow(self, address: *mut u8) -> Object {
        let stack = self.stack;
        let found = stack.find(address).map_err(|misuse| match misuse {
            Misuse::Unowned(pfn) => stack.unowned(pfn),
            other => other,
        });
        if let (Ok(Owner::Object(id)), Some(object)) = (found, Object::new(address))
            && id == self.id
        {
            return object;
        }
        let misuse = match found {
            Ok(Owner::Object(of)) | Err(Misuse::InsideObject(of)) if of != self.id => {
                Misuse::OtherCache { of, given: self.id }
            }
            // Objects between guard pages, and those with red zones, lie inside their block.
            Ok(_) | Err(Misuse::InsideBlock) => Misuse::NoObject(self.id),
            Err(misuse) => misuse,
        };
        stack.misuse(Entry::CacheFree, address, misuse)
    }

    /// Fills the front of `out`; returns the number of objects, less than `out.len()` only if
    /// memory is short. O(objects).
    pub fn alloc_bulk(self, out: &mut [MaybeUninit<Object>]) -> usize {
        let (stack, cache) = (self.stack, self.stack.known_cache(self.id));
        let slab = &*stack.slab;
        let mut taken = slab.alloc_bulk(stack.context().with(cache), out);
        if taken < out.len() {
            let more = stack.after_reclaim(cache.order().frames(), || {
                let more = slab.alloc_bulk(stack.context().with(cache), &mut out[taken..]);
                (more > 0).then_some(more)
            });
            taken += more.unwrap_or(0);
        }
        if self.stack.fast.link(self.id) > 0 {
            for place in &mut out[..taken] {
                // SAFETY: the policy wrote the first `taken` elements.
                place.write(self.shown(unsafe { place.assume_init() }));
            }
        }
        taken
    }

    /// Gives objects back. O(objects).
    ///
    /// # Safety
    /// All objects were allocated from this cache, differ, and no task uses them any more.
    pub(super) unsafe fn free_bulk(self, objects: &[Object]) {
        let (slab, context) = (&*self.stack.slab, self.stack.context());
        if self.stack.fast.link(self.id) == 0 {
            // SAFETY: the caller's promise is passed on.
            return unsafe { slab.free_bulk(context.with(&self), objects) };
        }
        let mut starts = [Object::dangling(); MAX_BATCH];
        for piece in objects.chunks(MAX_BATCH) {
            for (start, object) in starts.iter_mut().zip(piece) {
                // SAFETY: it is an object of this cache (caller's promise).
                *start = unsafe { self.start(*object) };
            }
            // SAFETY: the caller's promise is passed on.
            unsafe { slab.free_bulk(context.with(&self), &starts[..piece.len()]) };
        }
    }

    /// Empties slots and barns into slabs, and gives empty slabs back. O(slots + objects).
    pub fn shrink(self) {
        self.stack.slab.reclaim(&self.stack.context(), Reclaim::Cache(&self));
    }

    /// The counts of the cache. O(slots).
    #[must_use]
    pub fn stats(self) -> SlabStats {
        self.stack.slab.stats(self.stack.context().with(&self))
    }
}
