//! Announcements of locks, sequences and arrays of descriptors.
//!
//! A simulated machine lets tasks wait for a lock in simulated time, in the queue of the lock's
//! era, and counts a sequence as a few instructions that touch no shared line, whatever the code
//! does for it. In products, and under the model, the calls are empty.

use super::backend;
pub use super::waited::Waited;

/// Announces that the running task is about to check whether the lock at `lock` is free.
#[inline(always)]
pub fn lock_wanted(lock: usize) {
    backend::lock_wanted(lock);
}

/// Announces that the lock is held and the task waits. No other task runs since the check.
#[inline(always)]
pub fn lock_waits(lock: usize) -> Waited {
    backend::lock_waits(lock)
}

/// Announces that the task has taken the lock.
#[inline(always)]
pub fn lock_taken(lock: usize) {
    backend::lock_taken(lock);
}

/// Announces a release. Returns whether the machine has handed the lock over: it stays held.
#[inline(always)]
pub fn lock_released(lock: usize) -> bool {
    backend::lock_released(lock)
}

/// Announces an array with an entry of `bytes` for each of `frames` frames of memory: upwards from
/// `start`, or downwards where `grows_down`. In a kernel all entries of a frame share a cache line.
#[inline(always)]
pub fn frame_array(start: usize, frames: usize, bytes: usize, grows_down: bool) {
    backend::frame_array(start, frames, bytes, grows_down);
}

/// Runs `body`, whose atomics belong to an operation that is announced as a whole.
#[inline(always)]
pub fn unseen<T>(body: impl FnOnce() -> T) -> T {
    backend::unseen(body)
}

/// Announces a sequence on the slot whose control word is at `slot`; atomics are part of it.
#[inline(always)]
pub fn sequence_begins(slot: usize) {
    backend::sequence_begins(slot);
}

/// Announces the end of the last sequence.
#[inline(always)]
pub fn sequence_ends() {
    backend::sequence_ends();
}
