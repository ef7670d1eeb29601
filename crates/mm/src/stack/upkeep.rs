//! The interface of a stack for a library that looks after it, like `libquarry.so`.
//!
//! Users of a stack call [`Stack::trim`] and [`Stack::reclaim`] instead.

use super::cached_pages::CachedPages;
use super::instance::{Stack, StackConfig, Watch};

/// The methods for such a library.
pub struct Upkeep<'a, C: StackConfig>(pub(super) &'a Stack<C>);

impl<C: StackConfig> Copy for Upkeep<'_, C> {}

impl<C: StackConfig> Clone for Upkeep<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: StackConfig> Stack<C> {
    /// The interface for a library on top of the stack.
    #[inline(always)]
    pub fn upkeep(&self) -> Upkeep<'_, C> {
        Upkeep(self)
    }
}

impl<C: StackConfig> Upkeep<'_, C> {
    /// Lets the next request be a sample for guard pages, if a sample is due. O(1).
    pub fn sample_if_due(self) {
        self.0.watch.tick(self.0);
    }

    /// Counts a request of `frames` frames that was refused. O(slots).
    pub fn note_refusal(self, frames: usize) {
        C::Cache::note_refusal(self.0, frames);
    }

    /// In the child of a fork: ends calls of callbacks, and claims, that other threads had begun.
    pub fn adopt_in_child(self) {
        self.0.pages().zones().budget().adopt_in_child();
        self.0.cache.adopt_in_child();
    }
}
