//! The checks of objects, which reveal errors of the program. A *record* describes one object.

/// A set of checks. The first four are the letters of `slub_debug` (Linux 6.18,
/// `Documentation/admin-guide/mm/slab.rst`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckFlags(u16);

impl CheckFlags {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// F: the record of an object holds whether it is in use, and how large it is.
    pub const SANITY: Self = Self(1 << 0);
    /// Z: bytes that no code writes, before and after an object.
    pub const RED_ZONES: Self = Self(1 << 1);
    /// P: bytes of new and of freed objects have values that are not pointers.
    pub const POISON: Self = Self(1 << 2);
    /// U: the record of an object names the callers that allocated and freed it.
    pub const OWNER: Self = Self(1 << 3);
    /// The red zone is short, and its bytes are a secret of the process.
    pub const CANARY: Self = Self(1 << 4);
    /// A freed object is cleared.
    pub const ZERO: Self = Self(1 << 5);
    /// Quarry chooses at random which object a request gets, and which leaves the quarantine.
    pub(super) const RANDOM: Self = Self(1 << 6);
    /// A page after a large block faults.
    pub const GUARD_PAGE: Self = Self(1 << 7);

    /// The checks of `QUARRY_HARDEN=1`.
    pub const HARDEN: Self =
        Self(Self::SANITY.0 | Self::CANARY.0 | Self::ZERO.0 | Self::RANDOM.0 | Self::GUARD_PAGE.0);

    /// The set that a number of [`bits`](Self::bits) stands for.
    #[must_use]
    pub const fn of_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The set as a number.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns whether all of `others` are in the set.
    #[must_use]
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns whether one of `others` is in the set.
    #[must_use]
    pub const fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// The union of two sets.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The check that a letter of `slub_debug` stands for.
    #[must_use]
    pub const fn of_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'F' | b'f' => Self::SANITY,
            b'Z' | b'z' => Self::RED_ZONES,
            b'P' | b'p' => Self::POISON,
            b'U' | b'u' => Self::OWNER,
            _ => return None,
        })
    }
}
