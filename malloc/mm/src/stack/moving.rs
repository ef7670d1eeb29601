//! Helps programs to move objects out of sparse slabs, into the fullest ones.
//!
//! `malloc` and `free` are no help: the next `malloc` gets the object that was just freed, so each
//! moved object would take the place of the one moved before, and no slab would become empty. These
//! functions use slabs directly, past slots and barns.

use super::call::MIN_ALIGN;
use super::instance::{Stack, StackConfig};
use crate::heap::classes;
use crate::slab::{CacheId, Occupancy, SlabPolicy};
use quarry_sys::percpu::Object;

impl<C: StackConfig> Stack<C> {
    /// The object that starts at `address`, and its cache; `None` while an instrument sees frees.
    fn cache_at(&self, address: *mut u8) -> Option<(CacheId, Object)> {
        self.is_ready().then(|| self.pfn(address))??;
        let (kind, ..) = self.fast.object(address)?;
        Some((CacheId::new(usize::from(kind)), Object::new(address)?))
    }

    /// The occupancy of the slab of the object at `address`, which the caller keeps in use during
    /// the call. `None` for any other address, or an object made under the checks. O(1).
    pub fn occupancy(&self, address: *mut u8) -> Option<Occupancy> {
        let (id, object) = self.cache_at(address)?;
        self.slab.occupancy(self.context().with(self.caches.get(id)?), object)
    }

    /// Takes an object of `size` bytes at a multiple of `align` from the fullest slab that has a
    /// free one. `None` if no class has such objects, an instrument is on, the policy cannot do
    /// this, or there is no memory: then call [`alloc`](Self::alloc).
    pub fn alloc_dense(&self, size: usize, align: usize) -> Option<Object> {
        if !self.has_classes() || self.is_watched() {
            return None;
        }
        let cache = self.known_cache(classes::of_aligned(size, align.max(MIN_ALIGN))?);
        let object = self.slab.alloc_dense(self.context().with(cache))?;
        self.bound_footprint(cache.order().frames());
        Some(object)
    }

    /// Gives an object back to its slab at once. Returns false, and does nothing, in the cases in
    /// which [`alloc_dense`](Self::alloc_dense) returns `None`, or if the object seems free: then
    /// call [`free`](Self::free).
    ///
    /// # Safety
    /// If an allocation starts at `address` and the call succeeds, its user has given it up.
    pub unsafe fn free_dense(&self, address: *mut u8) -> bool {
        self.cache_at(address).is_some_and(|(id, object)| {
            // SAFETY: an object of this cache starts there and is given up (caller's promise).
            unsafe {
                !C::Slab::seems_parked(&self.fast.percpu, id, object)
                    && self.slab.free_dense(self.context().with(self.known_cache(id)), object)
            }
        })
    }
}
