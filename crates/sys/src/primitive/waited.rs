//! The ways in which a wait for a lock ends.

/// How a wait for a lock has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The lock waits by itself.
    ByItself,
    /// The caller has the lock: its last holder has handed it over, still held.
    HandedOver,
    /// The lock may be free: the caller looks again.
    LookAgain,
}
