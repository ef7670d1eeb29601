//! Announcements of locks, sequences and arrays of descriptors.
//!
//! A simulated machine lets tasks wait for a lock in simulated time, in the queue of its era, and
//! knows that a sequence is a few instructions and no shared line, whatever stands in for it. In
//! products, and under the model, the calls are empty: locks and slots go on by themselves.

use super::backend;
pub use super::waited::Waited;

/// Says that the running task is about to look whether the lock at `lock` is free.
#[inline(always)]
pub fn lock_wanted(lock: usize) {
    backend::lock_wanted(lock);
}

/// Says that it has found the lock held, and waits. No task runs between the look and this call.
#[inline(always)]
pub fn lock_waits(lock: usize) -> Waited {
    backend::lock_waits(lock)
}

/// Says that it has taken the lock.
#[inline(always)]
pub fn lock_taken(lock: usize) {
    backend::lock_taken(lock);
}

/// Says that it is about to let go of the lock. Returns whether another task has it now: the lock
/// stays held.
#[inline(always)]
pub fn lock_released(lock: usize) -> bool {
    backend::lock_released(lock)
}

/// Says that an array holds an entry of `bytes` for each of `frames` frames of memory: upwards from
/// `start`, or downwards where `grows_down`. In a kernel all that describes a frame has one line.
#[inline(always)]
pub fn frame_array(start: usize, frames: usize, bytes: usize, grows_down: bool) {
    backend::frame_array(start, frames, bytes, grows_down);
}

/// Runs `body`, whose atomics belong to an operation that has been announced as a whole.
#[inline(always)]
pub fn unseen<T>(body: impl FnOnce() -> T) -> T {
    backend::unseen(body)
}

/// Says that a sequence on the slot whose control word is at `slot` begins: until its end, atomics
/// are part of it.
#[inline(always)]
pub fn sequence_begins(slot: usize) {
    backend::sequence_begins(slot);
}

/// Says that the sequence that has begun last is over.
#[inline(always)]
pub fn sequence_ends() {
    backend::sequence_ends();
}
