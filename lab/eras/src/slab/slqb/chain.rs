//! Linked free objects with their last one.

use crate::slab::freelist::{Freelist, set_next};
use quarry_sys::percpu::Object;

/// A list with its last object (`kmlist`), which joins another in O(1).
///
/// Equations: `head = none <=> tail = none <=> count = 0`; the link of `tail` is 0; `tail` is
/// `count - 1` links after `head`.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) list: Freelist,
    pub(super) tail: Option<Object>,
}

// SAFETY: addresses of objects; one thread at a time owns a chain and its objects.
unsafe impl Send for Chain {}

impl Chain {
    pub(super) fn count(&self) -> u32 {
        self.list.count
    }

    /// Adds an object at the end.
    ///
    /// # Safety
    /// The object is free, and the caller owns it and the objects of the chain.
    pub(super) unsafe fn push_back(&mut self, object: Object) {
        // SAFETY: the caller's promise.
        unsafe { set_next(object, None) };
        let one = Freelist { head: Some(object), count: 1 };
        // SAFETY: the caller's promise.
        unsafe { self.append(Self { list: one, tail: Some(object) }) };
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
