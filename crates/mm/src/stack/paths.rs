//! The fast and the slow half of each request, apart.
//!
//! They are the interface for a library that puts something of its own between the halves, as
//! `libquarry.so` does: errno, the gate that `fork` closes, the start of a thread. Other users call
//! [`Stack::alloc`] and its like, which are both halves.
//!
//! The fast halves take any address, also null. All are O(1), take no lock and make no atomic
//! read-modify-write.

use super::call::{Entry, Request};
use super::instance::{Stack, StackConfig, Watch};
use quarry_sys::percpu::Object;

/// See the module; from [`Stack::paths`].
pub struct Paths<'a, C: StackConfig>(&'a Stack<C>);

impl<C: StackConfig> Stack<C> {
    /// The halves of each request: not for users of a stack, but for a library on top of it.
    #[inline(always)]
    pub fn paths(&self) -> Paths<'_, C> {
        Paths(self)
    }
}

impl<C: StackConfig> Paths<'_, C> {
    /// Allocates `size` bytes: `None` means [`alloc_on_stack`](Self::alloc_on_stack), also for a
    /// stack that is not ready.
    #[inline(always)]
    pub fn alloc_fast(self, size: usize) -> Option<Object> {
        self.0.alloc_fast(size)
    }

    /// [`Stack::alloc`] where the fast path has refused.
    pub fn alloc_on_stack(self, request: Request) -> Option<Object> {
        self.0.alloc_refused(request)
    }

    /// [`Stack::alloc`] of a request at no alignment while a heap profile is on, by the running CPU
    /// alone; `None` means [`alloc_on_stack`](Self::alloc_on_stack), also while no profile is on.
    #[inline]
    pub fn alloc_counted(self, size: usize, zeroed: bool) -> Option<Object> {
        self.0.watch.alloc_counted(self.0, size, zeroed)
    }

    /// A block of pages for `size` bytes that the running CPU has listed; `None` means
    /// [`alloc_on_stack`](Self::alloc_on_stack), also for every other size.
    #[inline]
    pub fn alloc_listed(self, size: usize, zeroed: bool) -> Option<Object> {
        self.0.alloc_listed(size, zeroed)
    }

    /// Frees a block of pages to the list of the running CPU: false means
    /// [`free_slow`](Self::free_slow), also for every other address.
    ///
    /// # Safety
    /// If an allocation starts at `address`, its user has given it up.
    #[inline]
    pub unsafe fn free_listed(self, address: *mut u8) -> bool {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.0.free_listed(address) }
    }

    /// Allocates `size` bytes that are all zero: `None` means
    /// [`alloc_on_stack`](Self::alloc_on_stack).
    #[inline(always)]
    pub fn alloc_zeroed_fast(self, size: usize) -> Option<Object> {
        self.0.alloc_zeroed_fast(size)
    }

    /// Frees an object: false means [`free_slow`](Self::free_slow).
    ///
    /// # Safety
    /// If an allocation starts at `address`, its user has given it up.
    #[inline(always)]
    pub unsafe fn free_fast(self, address: *mut u8) -> bool {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.0.free_fast(address) }
    }

    /// Frees an allocation; reports a pointer that is not one, and aborts.
    ///
    /// # Safety
    /// Same as for [`free_fast`](Self::free_fast).
    pub unsafe fn free_slow(self, object: Object) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.0.free_slow(object) };
    }

    /// Bytes of an object: `None` means [`Stack::usable_size`].
    #[inline(always)]
    pub fn usable_fast(self, address: *mut u8) -> Option<usize> {
        self.0.usable_fast(address)
    }

    /// Same as [`usable_fast`](Self::usable_fast), but also refuses an object that seems to have
    /// been freed a moment ago.
    #[inline(always)]
    pub fn usable_fast_in_use(self, object: Object) -> Option<usize> {
        self.0.usable_fast_in_use(object)
    }

    /// Returns whether `address` is an object that can have `size` bytes where it is. False for
    /// size 0.
    #[inline(always)]
    pub fn stays_fast(self, address: *mut u8, size: usize) -> bool {
        self.0.stays_fast(address, size)
    }

    /// Moves the contents of an object to another one of `size` bytes or somewhat more, and hands
    /// the old object to `free`. `None`, and nothing done, means
    /// [`realloc_slow`](Self::realloc_slow).
    ///
    /// # Safety
    /// Only the caller uses `object`, and not after success; `free` frees it.
    #[inline]
    pub unsafe fn move_fast(
        self,
        object: Object,
        size: usize,
        free: impl FnOnce(Object),
    ) -> Option<Object> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.0.move_fast(object, size, free) }
    }

    /// Returns whether `address` is a block of pages that can have `size` bytes where it is, with
    /// nothing to be done: false means [`stays_large`](Self::stays_large). O(1), no lock.
    #[inline]
    #[must_use]
    pub fn stays_block_fast(self, address: *mut u8, size: usize) -> bool {
        self.0.stays_block_fast(address, size)
    }

    /// Returns whether `object` is a block or a mapping that can have `size` bytes where it is,
    /// with nothing to be done. False also where it is an object.
    pub fn stays_large(self, object: Object, size: usize) -> bool {
        self.0.stays_large(object, size)
    }

    /// [`Stack::realloc`], without trying the fast paths again.
    ///
    /// # Safety
    /// Same as for [`Stack::realloc`].
    pub unsafe fn realloc_slow(self, object: Object, request: Request) -> Option<Object> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.0.realloc_aligned(object, request.size, request.align) }
    }

    /// Returns whether `address` is an object that a request of `size` bytes can have got: false
    /// means [`demand_size`](Self::demand_size).
    #[inline(always)]
    pub fn was_asked_fast(self, address: *mut u8, size: usize) -> bool {
        self.0.was_asked_fast(address, size)
    }

    /// Demands that a request of `size` bytes at a multiple of `align`, a power of two, gets such
    /// an `object`, and that it has not been resized since. Counts another size, and aborts for it
    /// where the checks are on; reports a pointer that is not an allocation, and aborts.
    pub fn demand_size(self, entry: Entry, object: Object, size: usize, align: usize) {
        self.0.demand_size(entry, object, size, align);
    }

    /// Demands that `object` has `size` bytes, with any size requested first; otherwise same as
    /// [`demand_size`](Self::demand_size).
    pub fn demand_room(self, entry: Entry, object: Object, size: usize) {
        self.0.demand_room(entry, object, size);
    }
}
