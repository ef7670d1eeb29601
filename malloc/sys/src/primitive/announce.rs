//! Announcements to a simulated machine: of locks, sequences and arrays of descriptors.
//!
//! A simulated machine lets tasks wait for a lock in simulated time, in a queue like that of the
//! simulated kernel. It charges a sequence as a few instructions without shared memory,
//! whatever the code does. In products, and under the model, the calls are empty.

use super::backend::{self, machine};
pub use super::machine::Waited;

/// Announces that the running task is about to check whether the lock at `lock` is free.
#[inline(always)]
pub fn lock_wanted(lock: usize) {
    if let Some(machine) = machine() {
        machine.lock_wanted(lock);
    }
}

/// Announces that the task waits for the lock. No other task has run since the check.
#[inline(always)]
pub fn lock_waits(lock: usize) -> Waited {
    machine().map_or(Waited::ByItself, |machine| machine.lock_waits(lock))
}

/// Announces that the task has taken the lock.
#[inline(always)]
pub fn lock_taken(lock: usize) {
    if let Some(machine) = machine() {
        machine.lock_taken(lock);
    }
}

/// Announces a release. Returns whether the machine has passed the lock on, still held.
#[inline(always)]
pub fn lock_released(lock: usize) -> bool {
    machine().is_some_and(|machine| machine.lock_released(lock))
}

/// Announces an array with an entry of `bytes` for each of `frames` frames of memory: upwards from
/// `start`, or downwards if `grows_down`. In the kernel all entries of a frame share a cache line.
#[inline(always)]
pub fn frame_array(start: usize, frames: usize, bytes: usize, grows_down: bool) {
    if let Some(machine) = machine() {
        machine.frame_array(start, frames, bytes, grows_down);
    }
}

/// Runs `body` without announcing its atomics: they are part of an announced operation.
#[inline(always)]
pub fn unseen<T>(body: impl FnOnce() -> T) -> T {
    backend::unseen(body)
}

/// Announces a sequence whose control word is at `slot`. Its atomics take no simulated time.
#[inline(always)]
pub fn sequence_begins(slot: usize) {
    if let Some(machine) = machine() {
        machine.sequence_begins(slot);
    }
}

/// Announces the end of the sequence announced last.
#[inline(always)]
pub fn sequence_ends() {
    if let Some(machine) = machine() {
        machine.sequence_ends();
    }
}
