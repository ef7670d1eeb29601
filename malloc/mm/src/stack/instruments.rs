//! Which instruments of a stack are on.
//!
//! An instrument that is on sets `small_end` of the fast paths to 0, and some also set `span` to 0.
//! So every request takes its slow path, and only slow paths call the instruments. An instrument
//! may serve small objects at the start of a slow path, outside the gate
//! ([`Watch::alloc_outside`](super::Watch::alloc_outside)).
//!
//! | instrument | sees | limit that becomes 0 |
//! |---|---|---|
//! | heap profile, guard pages by sampling | allocations | `small_end` |
//! | debugging, hardening | allocations and frees | `small_end`, `span` |
//! | groups that threads have entered | allocations | `small_end` |
//!
//! Frees of sampled objects need no such limit: the fast path of `free` refuses their kind.

use quarry_sys::primitive::{AtomicU8, Ordering};

/// An instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instrument {
    /// The heap profile.
    Profile,
    /// Guard pages around a sample of objects.
    Guard,
    /// Red zones, poison and owners.
    Debug,
    /// Random order, quarantine and canaries.
    Harden,
    /// Groups: threads inside them get memory of their heaps.
    Groups,
}

impl Instrument {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

const SEE_FREES: u8 = Instrument::Debug.bit() | Instrument::Harden.bit();

/// The instruments that are on.
pub struct Instruments(AtomicU8);

impl Instruments {
    pub(super) const fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Returns whether any instrument is on, not counting groups, which record nothing.
    #[inline]
    pub fn are_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !Instrument::Groups.bit() != 0
    }

    /// Returns whether `instrument` is on.
    #[inline]
    pub fn has(&self, instrument: Instrument) -> bool {
        self.0.load(Ordering::Relaxed) & instrument.bit() != 0
    }

    /// Returns whether `instrument` is on, and no other, not counting groups.
    #[inline(always)]
    pub fn is_only(&self, instrument: Instrument) -> bool {
        self.0.load(Ordering::Relaxed) & !Instrument::Groups.bit() == instrument.bit()
    }

    /// Returns whether threads have entered groups, and no other instrument is on.
    #[inline(always)]
    pub fn are_only_groups(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Instrument::Groups.bit()
    }

    pub(super) fn switch(&self, instrument: Instrument, on: bool) {
        if on {
            self.0.fetch_or(instrument.bit(), Ordering::SeqCst);
        } else {
            self.0.fetch_and(!instrument.bit(), Ordering::SeqCst);
        }
    }

    /// The instruments that are on. A task that stores the limits of the fast paths reads this
    /// before and after, and tries again if an instrument was switched meanwhile.
    pub(super) fn get(&self) -> u8 {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns whether an instrument that sees frees is on.
    #[inline]
    pub fn see_frees(&self) -> bool {
        self.0.load(Ordering::Relaxed) & SEE_FREES != 0
    }
}
