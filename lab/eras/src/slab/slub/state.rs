//! The state of a slab at one moment, and the word that holds it.
//!
//! Equations: `inuse + length of the free list = objects`, `head = none <=> inuse = objects`. Only
//! an object on the slab's own free list is free; an object on a CPU's list counts as in use.

use quarry_mm::frame::FreshZero;

/// The state of a slab at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlabState {
    pub(super) head: Option<u32>,
    pub(super) inuse: u32,
    pub(super) objects: u32,
    /// True if the slab belongs to a CPU or to the thread that moves it.
    pub(super) frozen: bool,
}

impl SlabState {
    /// A new slab: frozen, with all objects taken.
    pub(super) fn taken(objects: u32) -> Self {
        Self { head: None, inuse: objects, objects, frozen: true }
    }

    pub(super) fn free(self) -> u32 {
        self.objects - self.inuse
    }

    pub(super) fn is_listed(self) -> bool {
        !self.frozen && self.head.is_some()
    }

    /// Returns whether some objects of `chain` cannot be in use: the slab has fewer objects in use
    /// than the chain, or the chain's first object is already the head of the free list.
    pub(super) fn contradicts(self, chain: Linked) -> bool {
        self.inuse < chain.count || self.head == Some(chain.first)
    }

    /// The state with `chain` in front of the free list.
    pub(super) fn with_freed(self, chain: Linked) -> Self {
        Self { head: Some(chain.first), inuse: self.inuse - chain.count, ..self }
    }

    pub(super) fn with_all_taken(self) -> Self {
        Self { head: None, inuse: self.objects, ..self }
    }

    pub(super) fn with_frozen(self, frozen: bool) -> Self {
        Self { frozen, ..self }
    }

    pub(super) fn chain(self) -> Option<Linked> {
        self.head.map(|first| Linked { first, count: self.free() })
    }
}

/// Linked objects of one slab, which are freed together or were the slab's whole free list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Linked {
    pub(super) first: u32,
    pub(super) count: u32,
}

/// The record of a slab: all zero if there is none.
pub trait SlabWord: FreshZero + Send {
    /// True if the word has a lock bit.
    const HAS_LOCK: bool;

    /// Maximum number of objects of a slab.
    const MAX_OBJECTS: u32;

    /// The state of a slab with `objects` objects.
    fn state(&self, objects: u32) -> SlabState;

    /// Returns whether the word marks a slab of cache number `cache`. A word without a
    /// cache number always agrees: then only the frame table names the slab's cache.
    fn agrees(&self, cache: u8) -> bool;

    /// Starts a new slab: frozen, owned by the caller, all objects taken.
    fn start(&self, cache: u8, objects: u32);

    /// Ends the slab, which the caller owns: not frozen, on no list, no object in use.
    fn end(&self);
}
