//! Free objects linked through themselves: the first word of each holds the address of the next, or
//! 0.

use quarry_sys::percpu::Object;

/// The object after a free one.
///
/// # Safety
/// `object` is a linked free object that the caller owns.
pub(super) unsafe fn next(object: Object) -> Option<Object> {
    // SAFETY: objects have at least 16 bytes, aligned to 16, and the first word of a linked object
    // is its link (the caller's promise).
    Object::new(unsafe { object.cast::<*mut u8>().read() })
}

/// Links a free object to the next.
///
/// `object` is free and belongs to the caller.
pub(super) unsafe fn set_next(object: Object, next: Option<Object>) {
    let link = next.map_or(core::ptr::null_mut(), Object::as_ptr);
    // SAFETY: same as for `next`; no other thread reads the object.
    unsafe { object.cast::<*mut u8>().write(link) };
}

/// Linked objects that one thread owns, ending with a link of 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Freelist {
    pub(super) head: Option<Object>,
    pub(super) count: u32,
}

impl Freelist {
    /// Links the objects in their order.
    ///
    /// `objects` yields objects that are free, belong to the caller, and are all different.
    pub(super) unsafe fn linked(objects: impl Iterator<Item = Object>) -> Self {
        let mut list = Self::default();
        let mut last: Option<Object> = None;
        for object in objects {
            match last {
                // SAFETY: the caller's promise.
                Some(last) => unsafe { set_next(last, Some(object)) },
                None => list.head = Some(object),
            }
            last = Some(object);
            list.count += 1;
        }
        if let Some(last) = last {
            // SAFETY: the caller's promise.
            unsafe { set_next(last, None) };
        }
        list
    }

    pub(super) fn of_word(word: u64) -> Self {
        let head = Object::new(((word >> 20) << 4) as *mut u8);
        Self { head, count: (word & 0xf_ffff) as u32 }
    }

    pub(super) fn word(&self) -> u64 {
        let head = self.head.map_or(0, |head| head.as_ptr() as u64);
        (head >> 4) << 20 | u64::from(self.count)
    }
}
