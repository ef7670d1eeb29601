//! The visitor of locks. Each layer names its locks once, in its `visit_locks`; `fork` and the
//! statistics of locks use that.

use crate::lock::{CountedLock, Counting, LockStats};

/// A lock, whatever it guards.
pub trait AnyLock {
    /// Returns whether no thread holds it at the moment.
    fn is_free(&self) -> bool;

    /// Its counters, if it counts.
    fn stats(&self) -> Option<LockStats>;

    /// Makes it usable in the child of a fork, where only the calling thread is left. Does nothing
    /// to a lock that is taken inside the [`gate`](crate::gate) only: the fork has found it free.
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
