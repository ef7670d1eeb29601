//! Buffers of objects on the stack, as slow paths move them.

use core::mem::MaybeUninit;
use quarry_sys::percpu::Object;

/// Returns whether `object` is one of `objects`: looks at all of them, several at a time.
pub(super) fn is_among(objects: &[Object], object: Object) -> bool {
    objects.iter().fold(false, |found, other| found | (*other == object))
}

/// Objects of a buffer whose front has been written.
///
/// # Safety
/// The first `count` elements are there and initialised.
pub(super) unsafe fn written(buffer: &[MaybeUninit<Object>], count: usize) -> &[Object] {
    debug_assert!(count <= buffer.len());
    // SAFETY: MaybeUninit<T> has the layout of T, and the caller vouches for the front.
    unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast(), count) }
}
