//! Instruments: parts of a stack that see every request while they are on.
//!
//! Instruments cost nothing while all are off: an instrument that is on makes the limits of the
//! fast paths 0, so that every request takes its slow entry, and the slow entries ask the
//! instruments.
//!
//! | instrument | sees | limit that becomes 0 |
//! |---|---|---|
//! | heap profile, guard pages by sampling | allocations | `small_end` |
//! | debugging, hardening | allocations and frees | `small_end`, `span` |
//!
//! Where only the frees of some objects must be seen, no instrument is needed: those objects lie in
//! frames of a kind that the fast path of `free` refuses anyhow.

use quarry_sys::primitive::{AtomicU8, Ordering};

/// A part of a stack that sees every request while it is on.
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
}

impl Instrument {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The instruments that see frees.
const SEE_FREES: u8 = Instrument::Debug.bit() | Instrument::Harden.bit();

/// The instruments of a stack that are on.
pub(super) struct Instruments(AtomicU8);

impl Instruments {
    /// All instruments off.
    pub(super) const fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Returns whether any is on.
    #[inline]
    pub(super) fn are_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Returns whether this one is on.
    #[inline]
    pub(super) fn has(&self, instrument: Instrument) -> bool {
        self.0.load(Ordering::Relaxed) & instrument.bit() != 0
    }

    /// Returns whether this one is on, and no other.
    #[inline(always)]
    pub(super) fn is_only(&self, instrument: Instrument) -> bool {
        self.0.load(Ordering::Relaxed) == instrument.bit()
    }

    /// Switches one on or off.
    pub(super) fn switch(&self, instrument: Instrument, on: bool) {
        if on {
            self.0.fetch_or(instrument.bit(), Ordering::SeqCst);
        } else {
            self.0.fetch_and(!instrument.bit(), Ordering::SeqCst);
        }
    }

    /// The instruments that are on. A task that stores what follows from them compares them with
    /// those of a later call.
    pub(super) fn get(&self) -> u8 {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns whether frees take their slow entry.
    pub(super) fn see_frees(&self) -> bool {
        self.0.load(Ordering::Relaxed) & SEE_FREES != 0
    }
}
