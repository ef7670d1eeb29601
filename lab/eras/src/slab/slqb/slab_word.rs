//! The packed word of a slab: its list, its objects in use, its free list.
//!
//! ```text
//! {list : 14 | inuse : 9 | head + 1 : 9}
//! ```
//!
//! The kernel uses a pointer, a counter and a pointer in `struct page`. Equations: `inuse + length
//! of the free list = objects of the slab`; `head = none <=> inuse = objects`. Only an object on
//! its slab's own free list is free; one on a list of a CPU or a node counts as in use.
//!
//! The lock of the slab's list guards the word. `list` never changes while the slab exists, so a
//! thread that owns an object of the slab reads `list` without the lock.

use super::sizes::MAX_OBJECTS;
use crate::slab::records::Records;
use quarry_sys::primitive::{AtomicU32, Ordering};

pub(super) type Slabs = Records<SlabWord>;

const HEAD_BITS: u32 = 9;
const INUSE_SHIFT: u32 = HEAD_BITS;
const LIST_SHIFT: u32 = 2 * HEAD_BITS;
const MASK: u32 = (1 << HEAD_BITS) - 1;
const _: () = assert!(MAX_OBJECTS <= MASK, "inuse and head + 1 have 9 bits each");

/// The number of one of a cache's lists: first the lists of CPUs, then those of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ListId(pub(super) u16);

impl ListId {
    pub(super) const END: usize = 1 << (u32::BITS - LIST_SHIFT);

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlabState {
    pub(super) list: ListId,
    pub(super) inuse: u32,
    pub(super) head: Option<u32>,
}

/// The word; all zero if there is no slab.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct SlabWord(AtomicU32);

// SAFETY: an atomic whose default is 0.
unsafe impl quarry_mm::frame::FreshZero for SlabWord {}

impl SlabWord {
    /// The state. Unless the caller holds the lock of the list, only `list` is reliable.
    pub(super) fn state(&self) -> SlabState {
        let word = self.0.load(Ordering::Relaxed);
        SlabState {
            list: ListId((word >> LIST_SHIFT) as u16),
            inuse: word >> INUSE_SHIFT & MASK,
            head: (word & MASK).checked_sub(1),
        }
    }

    /// Sets the state, under the lock of the list, or for a slab that no other thread can find yet.
    pub(super) fn set(&self, state: SlabState) {
        let SlabState { list, inuse, head } = state;
        debug_assert!(list.index() < ListId::END && inuse <= MAX_OBJECTS);
        let head = head.map_or(0, |head| head + 1);
        let word = u32::from(list.0) << LIST_SHIFT | inuse << INUSE_SHIFT | head;
        self.0.store(word, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_parts_apart() {
        let word = SlabWord::default();
        for list in [0, 1, 77, ListId::END as u16 - 1] {
            for (inuse, head) in [(0, Some(0)), (255, Some(255)), (MAX_OBJECTS, None)] {
                let state = SlabState { list: ListId(list), inuse, head };
                word.set(state);
                assert_eq!(word.state(), state);
            }
        }
    }
}
