//! For programs that can move their objects: which of them keep memory, and how to move one to
//! where it keeps none.
//!
//! A program gets back next what it frees, because the running CPU holds it. So an object that is
//! moved by `malloc` and `free` takes the place of the one that was moved before, and no slab
//! becomes empty. These requests go past what CPUs and barns hold.

use super::call::MIN_ALIGN;
use super::instance::{Stack, StackConfig};
use crate::heap::classes;
use crate::slab::{CacheId, Occupancy, ParkedObjects, SlabPolicy};
use quarry_sys::percpu::Object;

impl<C: StackConfig> Stack<C> {
    /// The cache of the object that starts at an address, where frees are not seen. O(1). Any
    /// address may be given, also null.
    fn cache_at(&self, address: *mut u8) -> Option<(CacheId, Object)> {
        // The fast path knows all of the span from here on.
        self.is_ready().then(|| self.pfn(address))??;
        let (kind, ..) = self.object_fast(address)?;
        Some((CacheId::new(usize::from(kind)), Object::new(address)?))
    }

    /// The occupancy of the slab of the object at `address`, which the caller keeps in use during
    /// the call. `None` for everything else: blocks of pages and mappings, what the checks have
    /// taken, any other address. O(1).
    pub fn occupancy(&self, address: *mut u8) -> Option<Occupancy> {
        let (id, object) = self.cache_at(address)?;
        self.inner().slab.occupancy(&self.context(), self.find_cache(id)?, object)
    }

    /// Takes an object of `size` bytes at a multiple of `align` out of the fullest slab that has
    /// one, for an object that should leave its slab. `None` where [`alloc`](Self::alloc) has to
    /// serve: no slab has such objects, an instrument looks at requests, the policy cannot do this,
    /// or there is no memory.
    pub fn alloc_dense(&self, size: usize, align: usize) -> Option<Object> {
        if !self.has_classes() || self.is_watched() {
            return None;
        }
        let cache = self.known_cache(classes::of_aligned(size, align.max(MIN_ALIGN))?);
        let object = self.inner().slab.alloc_dense(&self.context(), cache)?;
        self.bound_footprint(cache.order().frames());
        Some(object)
    }

    /// Gives an object back to its slab at once. Returns false, and does nothing, where
    /// [`free`](Self::free) has to serve: in the cases of [`alloc_dense`](Self::alloc_dense), and
    /// where the object seems to have been freed a moment ago.
    ///
    /// # Safety
    /// If an allocation starts at `address`, its user has given it up where this succeeds.
    pub unsafe fn free_dense(&self, address: *mut u8) -> bool {
        self.cache_at(address).is_some_and(|(id, object)| {
            // SAFETY: an object of this cache starts at the address, and is given up (caller).
            unsafe {
                !C::Slab::seems_parked(&self.fast.percpu, id, object)
                    && self.inner().slab.free_dense(&self.context(), self.known_cache(id), object)
            }
        })
    }
}
