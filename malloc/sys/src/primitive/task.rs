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

/// The C library's handle of the running thread.
#[cfg(not(any(miri, quarry_model, quarry_sim, target_arch = "x86_64")))]
#[must_use]
pub fn handle() -> libc::pthread_t {
    // SAFETY: the call has no preconditions.
    unsafe { libc::pthread_self() }
}

/// Returns whether the running task is certainly the only one of the process, so that no other task
/// changes shared memory. O(1); in products one load. False in models and simulations.
#[inline(always)]
#[must_use]
pub fn is_alone() -> bool {
    backend::is_alone()
}

/// Returns whether the running task is the only one that the C library knows; there may be one
/// beside it, see [`set_beside`]. O(1).
#[inline(always)]
#[must_use]
pub fn is_known_alone() -> bool {
    backend::is_known_alone()
}

/// Notes the task that the C library does not know and that runs beside the only one that it knows,
/// which then is not alone; 0: none. The latter calls this. A no-op in models and simulations.
pub fn set_beside(task: usize) {
    backend::set_beside(task);
}
