//! The ways in which the wait for a lock may go on.

/// The next step of a task that waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The lock's own code waits: it spins, then sleeps.
    ByItself,
    /// The wait is over: the last holder has passed the lock on, still held.
    HandedOver,
    /// The lock may be free, and the task tries again.
    LookAgain,
}
