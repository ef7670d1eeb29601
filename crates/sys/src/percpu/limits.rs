//! Limits of the bytes for which arrays may have room.

/// Limits of the room of arrays, in bytes of the objects that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes in one slot.
    pub slot: usize,
    /// Maximum number of bytes in all slots together.
    pub all: usize,
    /// Bytes allowed to each slot even if `all` is reached.
    pub least: usize,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { slot: usize::MAX, all: usize::MAX, least: usize::MAX };

    /// Returns the bytes that a slot may still get, if it has `bytes` and all slots have `all`.
    pub(super) fn left(&self, bytes: usize, all: usize) -> usize {
        let beside = self.all.saturating_sub(all).max(self.least.saturating_sub(bytes));
        self.slot.saturating_sub(bytes).min(beside)
    }
}
