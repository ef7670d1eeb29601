//! Objects, the result of a push, the counts of an array, and the functions that a drain calls.

use super::layout::{ArrayId, SlotIndex};
use core::ptr::NonNull;

/// The address of an object of a cache, aligned to at least 16 bytes.
pub type Object = NonNull<u8>;

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// The object is in the slot.
    Stored,
    /// The array is full, was not prepared, or was stopped by a drain; the guard differs; or the
    /// thread has no slot. The caller takes the slow path.
    Refused,
    /// There was room, but the object is on top already (one of the [`LOOKED_AT`](super::LOOKED_AT)
    /// top ones of an array, or the head of a list): a double free. Nothing changed.
    Duplicate,
}

/// The counts of one array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayUse {
    /// Objects in the array now.
    pub level: u64,
    /// Pushes and pops of single objects so far.
    pub operations: u64,
}

/// A function that takes over some objects of an array.
pub type Take<'a> = dyn FnMut(ArrayId, &[Object]) + 'a;

/// A function that takes over the list of a cell: its guard, head and length.
pub type TakeList<'a> = dyn FnMut(u64, Option<Object>, usize) + 'a;

/// A function that chooses arrays; it always gives the same answer.
pub type Which<'a> = dyn Fn(SlotIndex, ArrayId) -> bool + 'a;
