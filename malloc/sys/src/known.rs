//! Facts that a process looks up once.

use crate::primitive::{AtomicU64, Ordering};

/// A number that is looked up when it is first needed, perhaps by several threads at once. A number
/// of 0 is looked up again.
pub(crate) struct Known(AtomicU64);

impl Known {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub(crate) fn get(&self, look: impl FnOnce() -> u64) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                let found = look();
                self.0.store(found, Ordering::Relaxed);
                found
            }
            known => known,
        }
    }

    /// The number, 0 if it has not been looked up.
    #[inline]
    pub(crate) fn seen(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// [`get`](Self::get) for an answer to a question.
    #[inline]
    pub(crate) fn is_true(&self, look: impl FnOnce() -> bool) -> bool {
        const NO: u64 = 1;
        const YES: u64 = 2;
        self.get(|| if look() { YES } else { NO }) == YES
    }
}
