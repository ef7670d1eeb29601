//! Objects, the result of a push, and the counts of slots.

use core::ptr::NonNull;

/// An object of a cache: its address, aligned to at least 16 bytes.
pub type Object = NonNull<u8>;

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// The object is in the slot.
    Stored,
    /// The array is full, not prepared or stopped by a drain, the guard differs, or the thread has
    /// no slot: the caller takes the slow path.
    Refused,
    /// There was room, but the object is on top already (among [`LOOKED_AT`](super::LOOKED_AT) of
    /// an array, at the head of a list): it was freed a moment ago. Nothing changed.
    Duplicate,
}

/// The counts of one array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayUse {
    /// Objects in the array now.
    pub level: u64,
    /// Single pushes and pops so far, batches not included.
    pub operations: u64,
}

/// The counts of one list in all slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListUse {
    /// Objects on the list now.
    pub level: u64,
    /// Pops so far, attempts that were interrupted and repeated included.
    pub pops: u64,
    /// Pushes so far, attempts that were interrupted and repeated included.
    pub pushes: u64,
}
