//! How waits for locks end.

/// How a wait for a lock has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The lock waits by itself.
    ByItself,
    /// The lock is the caller's: its last holder has handed it over as it is, held.
    HandedOver,
    /// The lock may be free: the caller looks again.
    LookAgain,
}
