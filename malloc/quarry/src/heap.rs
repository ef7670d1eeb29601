//! Heaps of the program.

use crate::cache::like_a_box;
use crate::error::Error;
use crate::group::Group;
use crate::process;
use crate::raw_heap::{HeapStats, RawHeap};
use core::alloc::Layout;
use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::{NonNull, null_mut};
use quarry_mm::zone::GroupId;

const ENTRY: &str = "quarry::Heap";

/// Drops and frees a boxed value.
type EndOf = unsafe fn(NonNull<u8>);

/// Memory that goes at once, and whose amount is bounded: for a query, a request, a tenant.
///
/// ```
/// let mut query = quarry::Heap::with_limit("query", 16 << 20)?;
/// for number in 0..1000u64 {
///     let row = query.alloc([number; 8]).expect("16 MiB are enough");
///     std::mem::forget(row); // It goes with the heap.
/// }
/// assert!(query.used() >= 64_000);
/// query.reset();
/// assert_eq!(query.used(), 0);
/// # Ok::<(), quarry::Error>(())
/// ```
///
/// Any thread may use a heap. Its objects share no page with those of another heap. A heap works
/// whether or not [`Quarry`](crate::Quarry) is the global allocator. Dropping a heap frees all of
/// its memory in O(slabs), and drops no value.
///
/// Boxes borrow their heap, so the heap cannot be dropped or reset before them:
///
/// ```compile_fail
/// let heap = quarry::Heap::new("heap").unwrap();
/// let object = heap.alloc([0u8; 100]);
/// drop(heap);
/// drop(object);
/// ```
pub struct Heap {
    raw: RawHeap,
    /// The function of [`on_pressure`](Self::on_pressure), and how it is freed.
    pressure: Option<(NonNull<u8>, EndOf)>,
}

// SAFETY: the heap may be used on any thread, and so may its function (bound of `on_pressure`).
unsafe impl Send for Heap {}
// SAFETY: as for Send.
unsafe impl Sync for Heap {}

/// # Safety
/// `tell` is what `on_pressure` has boxed, and it lives.
unsafe extern "C" fn call<F: Fn(usize)>(tell: *mut c_void, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { (*tell.cast::<F>())(bytes) };
}

/// # Safety
/// `tell` is what `on_pressure` has boxed, and no code uses it any more.
unsafe fn end<F>(tell: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe {
        tell.cast::<F>().drop_in_place();
        process::free(tell);
    }
}

impl Heap {
    /// Creates a heap without a limit. Statistics show the first 32 bytes of its name.
    ///
    /// # Errors
    /// [`Error::Disabled`] or [`Error::NoMemory`].
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::with_limit(name, usize::MAX)
    }

    /// Creates a heap whose pages take at most `limit` bytes, rounded down to 4 KiB, at least a
    /// page.
    ///
    /// # Errors
    /// Same as for [`new`](Self::new).
    pub fn with_limit(name: &str, limit: usize) -> Result<Self, Error> {
        Ok(Self { raw: RawHeap::create(GroupId::ROOT, name, limit)?, pressure: None })
    }

    /// Same as [`with_limit`](Self::with_limit), in a group that is charged for the heap, too.
    ///
    /// # Errors
    /// Same as for [`new`](Self::new), or [`Error::NoSuchGroup`].
    pub fn in_group(group: &Group, name: &str, limit: usize) -> Result<Self, Error> {
        Ok(Self { raw: RawHeap::create(group.id(), name, limit)?, pressure: None })
    }

    /// Moves a value into the heap. O(1) if a slab has a free object.
    ///
    /// # Errors
    /// The value, if the limit is reached or there is no memory.
    #[inline]
    pub fn alloc<T>(&self, value: T) -> Result<HeapBox<'_, T>, T> {
        let Some(object) = self.alloc_layout(Layout::new::<T>()) else { return Err(value) };
        let place = object.cast::<T>();
        // SAFETY: the memory has the size and the alignment of a T, and is new.
        unsafe { place.write(value) };
        Ok(HeapBox { place, heap: PhantomData })
    }

    /// Takes memory with any contents. `None` if the limit is reached or there is no memory. Like
    /// all memory of Quarry it goes back by [`free`](Self::free) or C's `free`, or with the heap.
    #[inline]
    #[must_use]
    pub fn alloc_layout(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.raw.alloc(layout.size(), layout.align(), ENTRY)
    }

    /// Same as [`alloc_layout`](Self::alloc_layout), all bytes 0.
    #[inline]
    #[must_use]
    pub fn alloc_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.raw.alloc_zeroed(layout.size(), layout.align(), ENTRY)
    }

    /// Gives an object of a heap back, on any thread. Aborts if it is known not to be in use.
    ///
    /// # Safety
    /// The object came from a heap that lives, and its user has given it up.
    #[inline]
    pub unsafe fn free(object: NonNull<u8>) {
        // SAFETY: the caller's promise is passed on.
        unsafe { process::free(object) };
    }

    /// Frees all that lives in the heap, which keeps its slabs. Drops no value. O(slabs).
    pub fn reset(&mut self) {
        // SAFETY: boxes borrow the heap, so only memory is left whose users gave up the boxes.
        unsafe { self.raw.reset(ENTRY) };
    }

    /// Bytes of objects in use, each rounded up to the size of its class.
    #[must_use]
    pub fn used(&self) -> usize {
        self.stats().used
    }

    /// The counts.
    #[must_use]
    pub fn stats(&self) -> HeapStats {
        self.raw.stats(ENTRY)
    }

    /// Changes the limit, as of [`with_limit`](Self::with_limit). Objects stay.
    pub fn set_limit(&self, limit: usize) {
        self.raw.set_limit(limit, ENTRY);
    }

    /// Sets the function that is called when a request for so many bytes has reached the limit, on
    /// the thread of the request, which then tries once more. Requests of the function itself to
    /// this heap fail at the limit.
    ///
    /// # Errors
    /// [`Error::NoMemory`] for the function.
    pub fn on_pressure<F: Fn(usize) + Send + Sync + 'static>(
        &mut self,
        tell: F,
    ) -> Result<(), Error> {
        let boxed = process::boxed(tell).ok_or(Error::NoMemory)?.cast::<u8>();
        // SAFETY: the function lives until this heap gets another one or ends, and `F` may be
        // called on any thread.
        unsafe { self.raw.on_pressure(Some(call::<F>), boxed.as_ptr().cast(), ENTRY) };
        let before = self.pressure.replace((boxed, end::<F>));
        before.into_iter().for_each(|(tell, end)| {
            // SAFETY: no request runs, because the borrow is unique, and the heap has another one.
            unsafe { end(tell) };
        });
        Ok(())
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: boxes borrow the heap, so there are none; no thread uses the heap.
        unsafe {
            self.raw.on_pressure(None, null_mut(), ENTRY);
            self.raw.destroy(ENTRY);
            if let Some((tell, end)) = self.pressure {
                end(tell);
            }
        }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Heap").field("raw", &self.raw).finish_non_exhaustive()
    }
}

/// A value in a [`Heap`]. Dropping this gives its memory back to the heap.
pub struct HeapBox<'a, T> {
    place: NonNull<T>,
    heap: PhantomData<(&'a Heap, T)>,
}

like_a_box!(HeapBox);

impl<T> HeapBox<'_, T> {
    /// Moves the value out, and gives the memory back.
    #[must_use]
    pub fn into_inner(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: the value is ours, and is moved out once: the box is not dropped.
        unsafe {
            let value = this.place.read();
            process::free(this.place.cast());
            value
        }
    }
}

impl<T> Drop for HeapBox<'_, T> {
    #[inline]
    fn drop(&mut self) {
        /// Gives the memory back, even if its value panics when it is dropped.
        struct Memory(NonNull<u8>);
        impl Drop for Memory {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: its value is gone, and no other code knows the memory.
                unsafe { process::free(self.0) };
            }
        }
        let _memory = Memory(self.place.cast());
        // SAFETY: the place holds a value, which no other code uses any more.
        unsafe { self.place.drop_in_place() };
    }
}
