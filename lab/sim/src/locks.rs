//! The locks of a machine: whether each is held, and the tasks that wait for it.

use crate::by_address::ByAddress;
use std::collections::VecDeque;

#[derive(Default)]
pub(crate) struct Lock {
    pub(crate) is_held: bool,
    pub(crate) since_ns: u64,
    /// Tasks that spin, in order of arrival, each with the time at which it began to wait.
    pub(crate) queue: VecDeque<(usize, u64)>,
    /// Tasks that sleep until the lock is free.
    pub(crate) sleepers: VecDeque<usize>,
    /// Number of acquisitions by tasks inside `task::watch`.
    pub(crate) watched: u64,
}

/// All locks that have been used. A lock at the address of an earlier lock continues its count.
#[derive(Default)]
pub(crate) struct Locks(ByAddress<Lock>);

impl Locks {
    pub(crate) fn at(&mut self, address: usize) -> &mut Lock {
        self.0.entry(address).or_default()
    }
}
