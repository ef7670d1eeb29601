//! Which checks are made of which objects.

use super::flags::CheckFlags;

/// The objects that `QUARRY_DEBUG` is about: a bit for each size class of `malloc`, and bit 0 for
/// what is larger.
pub type Classes = u128;

/// See the module; from `QUARRY_DEBUG`, `QUARRY_HARDEN` and `QUARRY_GUARD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Checks of the objects that `debugged` names.
    pub debug: CheckFlags,
    /// See [`Classes`].
    pub debugged: Classes,
    /// `QUARRY_HARDEN=1`.
    pub harden: bool,
    /// Guard pages by sampling.
    pub guard: Sampling,
}

/// How often an object gets guard pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// Never.
    #[default]
    Off,
    /// One each so many milliseconds.
    Each(u32),
    /// As long as there is a free one.
    All,
}

impl CheckOptions {
    /// No checks.
    pub const OFF: Self = Self {
        debug: CheckFlags::NONE,
        debugged: Classes::MAX,
        harden: false,
        guard: Sampling::Off,
    };

    /// Returns whether objects have records.
    #[must_use]
    pub fn have_records(&self) -> bool {
        self.harden || self.debug != CheckFlags::NONE
    }

    /// The checks of an object of a class, or of larger ones (0).
    #[must_use]
    pub fn flags_of(&self, class: usize) -> CheckFlags {
        let debug = if self.debugged >> class & 1 == 1 { self.debug } else { CheckFlags::NONE };
        if self.harden { debug.with(CheckFlags::HARDEN) } else { debug }
    }
}
