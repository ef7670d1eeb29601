//! Buffers of objects on the thread's stack.

use core::mem::MaybeUninit;
use quarry_sys::percpu::Object;

/// Returns whether `object` is one of `objects`, of which it compares four at a time.
#[must_use]
pub fn is_among(objects: &[Object], object: Object) -> bool {
    let (fours, rest) = objects.as_chunks::<4>();
    let among = |found, [a, b, c, d]: &[Object; 4]| {
        found | (*a == object) | (*b == object) | (*c == object) | (*d == object)
    };
    fours.iter().fold(false, among) | rest.contains(&object)
}

/// The first `count` objects of a buffer.
///
/// # Safety
/// The first `count` elements are initialised.
pub unsafe fn written(buffer: &[MaybeUninit<Object>], count: usize) -> &[Object] {
    // SAFETY: `MaybeUninit<T>` has the layout of `T`, and the caller has initialised the front.
    unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast(), count) }
}

/// Moves those of `objects` that are not `ours` to the front of `others`, which has room for all,
/// and closes the gaps in `objects`. Returns the number of moved objects.
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
        // SAFETY: the caller has initialised all objects, and only such objects were moved.
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

#[cfg(all(test, not(quarry_model)))]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_found_wherever_it_is() {
        let mut memory = [0u8; 16];
        let start = core::ptr::NonNull::from(&mut memory).cast::<u8>();
        // SAFETY: each address lies in the memory, or right after it.
        let all: [Object; 17] = core::array::from_fn(|index| unsafe { start.add(index) });
        for count in 0..all.len() {
            for (index, object) in all.iter().enumerate() {
                assert_eq!(is_among(&all[..count], *object), index < count, "{index} of {count}");
            }
        }
    }
}
