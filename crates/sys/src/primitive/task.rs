//! The identity of the running task, by which locks and gates notice a second entry.
//!
//! A task is a thread of the process, one of the model's threads, or a coroutine of a simulated
//! machine.

use super::backend;

/// The running task: unique among those that are alive, never 0. O(1); in products one load.
///
/// It serves as an owner's mark in locks and as the hash that spreads threads over striped slots;
/// it is never dereferenced.
#[inline(always)]
#[must_use]
pub fn current() -> usize {
    backend::task()
}

/// A number of the running task for people: the kernel's number of the thread. One system call.
#[must_use]
pub fn number() -> u32 {
    backend::task_number()
}

/// Returns whether the running task is for sure the only one of the process: then no other one
/// changes the memory that it reads. O(1); in products one load. A model and a simulated machine
/// always have several.
#[inline(always)]
#[must_use]
pub fn is_alone() -> bool {
    backend::is_alone()
}
