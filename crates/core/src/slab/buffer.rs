//! Buffers of objects on the stack, of which the front has been written.

use core::mem::MaybeUninit;
use quarry_sys::percpu::Object;

/// Returns whether `object` is one of `objects`: looks at all of them, several at a time.
pub(super) fn is_among(objects: &[Object], object: Object) -> bool {
    objects.iter().fold(false, |found, other| found | (*other == object))
}

/// Objects of a buffer whose front has been written.
///
/// # Safety
/// The first `count` elements are initialised.
pub(super) unsafe fn written(buffer: &[MaybeUninit<Object>], count: usize) -> &[Object] {
    // SAFETY: MaybeUninit<T> has the layout of T, and the caller vouches for the front.
    unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast(), count) }
}

/// Moves the objects that are not `ours` from `objects` to the front of `others`, which has room
/// for all, and closes the gaps. Returns how many were moved.
///
/// # Safety
/// `objects` are initialised.
pub(super) unsafe fn sort_out(
    objects: &mut [MaybeUninit<Object>],
    others: &mut [MaybeUninit<Object>],
    ours: impl Fn(Object) -> bool,
) -> usize {
    let mut moved = 0;
    for index in 0..objects.len() {
        // SAFETY: the caller vouches for it, and what was copied to the front was initialised.
        let object = unsafe { objects[index].assume_init() };
        if ours(object) {
            objects[index - moved].write(object);
        } else {
            others[moved].write(object);
            moved += 1;
        }
    }
    moved
}
