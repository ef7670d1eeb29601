//! The identity of the running task, by which locks and gates detect that a task enters twice.
//!
//! A task is a thread of the process or of a model, or a coroutine of a simulated machine.

use super::backend;

/// The running task: unique among live tasks, never 0. O(1); in products one load.
///
/// It identifies a lock's owner and spreads threads over stripes; no code dereferences it.
#[inline(always)]
#[must_use]
pub fn current() -> usize {
    backend::task()
}

/// The kernel's thread id of the running thread, for messages. One system call.
#[must_use]
pub fn number() -> u32 {
    backend::task_number()
}

/// Returns whether the running task is certainly the only one of the process, so that no other task
/// changes shared memory. O(1); in products one load. False in models and simulations.
#[inline(always)]
#[must_use]
pub fn is_alone() -> bool {
    backend::is_alone()
}

/// Notes whether a thread that the C library does not know runs beside the only one that it knows:
/// then the latter is not alone. That thread calls this. A no-op in models and simulations.
pub fn set_beside(is_there: bool) {
    backend::set_beside(is_there);
}
