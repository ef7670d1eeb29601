//! `Allocator` of `allocator-api2`, whose traits are those of the standard library's unstable
//! `allocator_api`: collections in Quarry's memory, and in a heap.

use crate::Quarry;
#[cfg(feature = "heaps")]
use crate::group::Group;
#[cfg(feature = "heaps")]
use crate::heap::Heap;
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;

/// The memory that `ask` gets for a layout, or an address if the layout has no bytes.
#[inline]
fn given(
    layout: Layout,
    ask: impl FnOnce() -> Option<NonNull<u8>>,
) -> Result<NonNull<[u8]>, AllocError> {
    let address = match layout.size() {
        // A layout's alignment is not 0, so the address is not null.
        0 => NonNull::new(core::ptr::without_provenance_mut(layout.align())),
        _ => ask(),
    };
    Ok(NonNull::slice_from_raw_parts(address.ok_or(AllocError)?, layout.size()))
}

/// Resizes an allocation of any allocator here: Quarry's `realloc` leaves an object in its heap.
///
/// # Safety
/// As for `Allocator::grow` and `shrink` of `allocator`.
unsafe fn resize(
    allocator: &impl Allocator,
    pointer: NonNull<u8>,
    old: Layout,
    new: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    if old.size() > 0 && new.size() > 0 && new.align() <= old.align() {
        return given(new, || {
            // SAFETY: the allocation has this layout, and the caller gives it up on success.
            NonNull::new(unsafe { Quarry.realloc(pointer.as_ptr(), old, new.size()) })
        });
    }
    let moved = allocator.allocate(new)?;
    let kept = old.size().min(new.size());
    // SAFETY: both have so many bytes and are apart; the caller gives the old one up.
    unsafe {
        pointer.copy_to_nonoverlapping(moved.cast(), kept);
        allocator.deallocate(pointer, old);
    }
    Ok(moved)
}

/// The functions that give back and resize, the same for each allocator here.
macro_rules! as_quarry_does {
    () => {
        #[inline]
        unsafe fn deallocate(&self, pointer: NonNull<u8>, layout: Layout) {
            if layout.size() > 0 {
                // SAFETY: the caller gives up what this allocator gave it.
                unsafe { Quarry.dealloc(pointer.as_ptr(), layout) };
            }
        }

        #[inline]
        unsafe fn grow(
            &self,
            pointer: NonNull<u8>,
            old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, AllocError> {
            // SAFETY: the caller's promise is passed on.
            unsafe { resize(self, pointer, old, new) }
        }

        #[inline]
        unsafe fn shrink(
            &self,
            pointer: NonNull<u8>,
            old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, AllocError> {
            // SAFETY: the caller's promise is passed on.
            unsafe { resize(self, pointer, old, new) }
        }
    };
}

/// Collections in Quarry's memory, whatever the program's global allocator is.
///
/// ```
/// use allocator_api2::vec::Vec;
///
/// let mut numbers = Vec::new_in(quarry::Quarry);
/// numbers.extend(0..1000u64);
/// assert!(quarry::Quarry::owns(numbers.as_ptr().cast()));
/// ```
// SAFETY: memory stays valid until it is given back, and every `Quarry` is the same allocator.
unsafe impl Allocator for Quarry {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the layout has bytes.
        given(layout, || NonNull::new(unsafe { self.alloc(layout) }))
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the layout has bytes.
        given(layout, || NonNull::new(unsafe { self.alloc_zeroed(layout) }))
    }

    as_quarry_does!();
}

/// Collections in the memory of a group, whatever group the running thread is inside.
///
/// ```
/// use allocator_api2::vec::Vec;
///
/// let query = quarry::Group::new("query", &quarry::GroupOptions::default())?;
/// let mut rows = Vec::new_in(&query);
/// rows.extend(0..1000u64);
/// assert!(query.usage().malloc_in_use >= 8000);
/// # Ok::<(), quarry::Error>(())
/// ```
#[cfg(feature = "heaps")]
// SAFETY: memory stays valid until it is given back, also after the group has gone.
unsafe impl Allocator for &Group {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let _inside = self.enter().map_err(|_| AllocError)?;
        Quarry.allocate(layout)
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let _inside = self.enter().map_err(|_| AllocError)?;
        Quarry.allocate_zeroed(layout)
    }

    as_quarry_does!();
}

/// Collections in a heap, which they borrow.
///
/// ```
/// use allocator_api2::{boxed::Box, vec::Vec};
///
/// let query = quarry::Heap::with_limit("query", 1 << 20)?;
/// let mut rows = Vec::new_in(&query);
/// rows.extend((0..100u64).map(|row| Box::new_in(row, &query)));
/// assert!(query.used() >= 1600);
/// assert!(rows.try_reserve(1 << 20).is_err(), "the limit");
/// # Ok::<(), quarry::Error>(())
/// ```
#[cfg(feature = "heaps")]
// SAFETY: memory stays valid until it is given back or the heap ends, which the borrow prevents.
unsafe impl Allocator for &Heap {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        given(layout, || self.alloc_layout(layout))
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        given(layout, || Heap::alloc_zeroed(self, layout))
    }

    as_quarry_does!();
}
