//! Limits of the room of arrays.

/// Limits of the room of arrays, in bytes of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one slot.
    pub slot: usize,
    /// Most bytes of all slots together.
    pub all: usize,
    /// Bytes that each slot may have even where `all` is reached.
    pub least: usize,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { slot: usize::MAX, all: usize::MAX, least: usize::MAX };

    /// Returns the bytes that a slot with room for `bytes`, of `all` in all slots, may still get.
    pub(super) fn left(&self, bytes: usize, all: usize) -> usize {
        let beside = self.all.saturating_sub(all).max(self.least.saturating_sub(bytes));
        self.slot.saturating_sub(bytes).min(beside)
    }
}
