//! The visitor of locks, for `fork` and statistics. Each layer's `visit_locks` names its locks.

use crate::lock::{CountedLock, Counting, LockStats};

/// A lock, whatever type it guards.
pub trait AnyLock {
    /// Returns whether no thread holds it now.
    fn is_free(&self) -> bool;

    /// The lock's counters, if it counts.
    fn stats(&self) -> Option<LockStats>;

    /// Makes the lock usable in a fork's child, which has only the calling thread. Does nothing to
    /// a lock that is taken only inside the [`gate`](crate::gate): the fork has found it free.
    fn adopt_in_child(&self);
}

/// A function that is called for each lock, with the name that statistics print.
pub type Visit<'a> = dyn FnMut(&'static str, &dyn AnyLock) + 'a;

impl<T, C: Counting> AnyLock for CountedLock<T, C> {
    fn is_free(&self) -> bool {
        !self.is_held()
    }

    fn stats(&self) -> Option<LockStats> {
        self.counts().then(|| self.stats())
    }

    fn adopt_in_child(&self) {}
}
