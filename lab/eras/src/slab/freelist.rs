//! Free objects linked through themselves: the first word of each holds the address of the next, or
//! 0.

use quarry_mm::frame::FreshZero;
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
    /// # Safety
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

/// A list that knows its last object (`kmlist`), so that it joins another list in O(1).
///
/// Equations: `head = none <=> tail = none <=> count = 0`; the link of `tail` is 0; `tail` is
/// `count - 1` links after `head`.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) list: Freelist,
    pub(super) tail: Option<Object>,
}

// SAFETY: a chain holds addresses of objects, and one thread at a time owns it and the objects.
unsafe impl Send for Chain {}
// SAFETY: zero bytes are an empty chain: no head, no tail, no objects.
unsafe impl FreshZero for Chain {}

impl Chain {
    /// A chain of one object.
    ///
    /// # Safety
    /// The object is free, and the caller owns it.
    pub(super) unsafe fn one(object: Object) -> Self {
        // SAFETY: the caller's promise.
        unsafe { set_next(object, None) };
        Self { list: Freelist { head: Some(object), count: 1 }, tail: Some(object) }
    }

    pub(super) fn count(&self) -> u32 {
        self.list.count
    }

    /// Adds an object at the end.
    ///
    /// # Safety
    /// The object is free, and the caller owns it and the objects of the chain.
    pub(super) unsafe fn push_back(&mut self, object: Object) {
        // SAFETY: the caller's promise.
        unsafe { self.append(Self::one(object)) };
    }

    /// Adds another chain at the end.
    ///
    /// # Safety
    /// The caller owns the objects of both chains.
    pub(super) unsafe fn append(&mut self, other: Self) {
        let Some(tail) = self.tail else {
            *self = other;
            return;
        };
        if other.tail.is_some() {
            // SAFETY: the caller's promise.
            unsafe { set_next(tail, other.list.head) };
            self.list.count += other.list.count;
            self.tail = other.tail;
        }
    }

    pub(super) fn take(&mut self) -> Self {
        core::mem::take(self)
    }
}
