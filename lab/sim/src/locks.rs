//! The locks of a machine: the owner of each, and the tasks that wait for it.

use crate::by_address::ByAddress;
use crate::outcome::LockClass;
use std::collections::{BTreeMap, VecDeque};

#[derive(Default)]
pub(crate) struct Lock {
    pub(crate) is_held: bool,
    pub(crate) since_ns: u64,
    /// Tasks that spin, in order of arrival, each with the time at which it began to wait.
    pub(crate) queue: VecDeque<(usize, u64)>,
    /// Tasks that sleep until the lock is free.
    pub(crate) sleepers: VecDeque<usize>,
    /// An index of [`Locks::names`].
    class: usize,
    pub(crate) costs: LockClass,
    /// Number of acquisitions by tasks inside `task::watch`.
    pub(crate) watched: u64,
}

/// All locks that have been used. A lock at the address of an earlier lock continues its counts.
pub(crate) struct Locks {
    locks: ByAddress<Lock>,
    names: Vec<String>,
}

/// The class of locks without a name.
const OTHER: &str = "other";

impl Locks {
    pub(crate) fn new() -> Self {
        Self { locks: ByAddress::default(), names: vec![OTHER.to_owned()] }
    }

    pub(crate) fn at(&mut self, address: usize) -> &mut Lock {
        self.locks.entry(address).or_default()
    }

    pub(crate) fn name(&mut self, address: usize, name: &str) {
        let class = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.at(address).class = class;
    }

    /// Costs by class, without classes that were never used.
    pub(crate) fn classes(&self) -> BTreeMap<String, LockClass> {
        let mut classes = vec![LockClass::default(); self.names.len()];
        self.locks.values().for_each(|lock| classes[lock.class] += lock.costs);
        let used = |class: &LockClass| class.acquisitions + class.refused > 0;
        self.names.iter().cloned().zip(classes).filter(|(_, class)| used(class)).collect()
    }
}
