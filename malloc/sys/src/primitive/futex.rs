//! Futexes: a task sleeps until another task has changed a word.

use super::atomics::AtomicU32;
use super::backend;

#[inline(always)]
fn raw(word: &AtomicU32) -> &core::sync::atomic::AtomicU32 {
    #[cfg(not(any(quarry_model, quarry_sim)))]
    {
        word
    }
    #[cfg(any(quarry_model, quarry_sim))]
    {
        word.raw()
    }
}

/// Sleeps if the word equals `expected`, until a task wakes this one; may also return early.
pub fn wait(word: &AtomicU32, expected: u32) {
    backend::wait(raw(word), expected, None);
}

/// [`wait`] for at most `ns` nanoseconds.
pub fn wait_at_most(word: &AtomicU32, expected: u32, ns: u64) {
    backend::wait(raw(word), expected, Some(ns));
}

/// Wakes one of the tasks that sleep on the word. Not inlined, as each unlock would have a copy.
#[cold]
#[inline(never)]
pub fn wake_one(word: &AtomicU32) {
    backend::wake(raw(word), 1);
}

/// Wakes all tasks that sleep on the word.
pub fn wake_all(word: &AtomicU32) {
    backend::wake(raw(word), i32::MAX);
}

/// Wakes up to `most` tasks of all processes that sleep on the 32-bit word at `address`, a multiple
/// of 4, perhaps in shared memory. Returns how many it has woken. One system call.
pub fn wake_others(address: usize, most: i32) -> usize {
    backend::wake_others(address, most)
}

/// Returns whether the 32-bit word at `address`, a multiple of 4, is zero; `None` if the kernel,
/// which does the load, faults. One system call; always `None` in a model and a simulated machine.
#[must_use]
pub fn reads_zero(address: usize) -> Option<bool> {
    backend::reads_zero(address)
}
