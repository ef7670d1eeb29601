//! The state of a slab at one moment, and the word that holds it.
//!
//! Equations: `inuse + length of the free list = objects`, `head = none <=> inuse = objects`. An
//! object that is not on the slab's own free list is in use, also while it waits on a CPU's list.

use quarry_mm::frame::FreshZero;

/// The state of a slab at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlabState {
    /// The number of the first free object.
    pub(super) head: Option<u32>,
    /// Objects that are not on the slab's own free list.
    pub(super) inuse: u32,
    /// All objects.
    pub(super) objects: u32,
    /// True if the slab belongs to a CPU, or to the thread that moves it.
    pub(super) frozen: bool,
}

impl SlabState {
    /// A slab with all of its objects taken, frozen: how it starts.
    pub(super) fn taken(objects: u32) -> Self {
        Self { head: None, inuse: objects, objects, frozen: true }
    }

    /// Objects on the slab's own free list.
    pub(super) fn free(self) -> u32 {
        self.objects - self.inuse
    }

    /// Returns whether the slab's place is on its node's list.
    pub(super) fn is_listed(self) -> bool {
        !self.frozen && self.head.is_some()
    }

    /// Returns whether `chain` cannot be in use: fewer objects are, or its first one is the first
    /// of the free list already.
    pub(super) fn contradicts(self, chain: FreedChain) -> bool {
        self.inuse < chain.count || self.head == Some(chain.first)
    }

    /// With a chain of objects in front of the free list.
    pub(super) fn with_freed(self, chain: FreedChain) -> Self {
        Self { head: Some(chain.first), inuse: self.inuse - chain.count, ..self }
    }

    /// Without its free objects.
    pub(super) fn with_all_taken(self) -> Self {
        Self { head: None, inuse: self.objects, ..self }
    }

    /// Frozen, or not.
    pub(super) fn with_frozen(self, frozen: bool) -> Self {
        Self { frozen, ..self }
    }

    /// The free list, if it has objects.
    pub(super) fn chain(self) -> Option<TakenChain> {
        self.head.map(|first| TakenChain { first, count: self.free() })
    }
}

/// Objects of one slab that come back together, linked to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreedChain {
    /// Number of the first one.
    pub(super) first: u32,
    /// Their number.
    pub(super) count: u32,
}

/// A free list that was taken whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenChain {
    /// Number of the first one.
    pub(super) first: u32,
    /// Their number.
    pub(super) count: u32,
}

/// The record of a slab: all zero where there is none.
pub trait SlabWord: FreshZero + Send {
    /// True if the word has a lock bit.
    const HAS_LOCK: bool;

    /// Most objects of a slab.
    const MAX_OBJECTS: u32;

    /// The state of a slab with `objects` objects.
    fn state(&self, objects: u32) -> SlabState;

    /// Returns whether the word agrees that this is a slab of cache number `cache`. A word without
    /// a number always agrees: then the frame table alone names the slab's cache.
    fn agrees(&self, cache: u8) -> bool;

    /// Starts a new slab: frozen, owned by the caller, all objects taken.
    fn start(&self, cache: u8, objects: u32);

    /// Ends the slab. The caller owns it: not frozen, on no list, no object in use.
    fn end(&self);
}
