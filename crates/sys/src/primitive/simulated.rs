//! The seam's backend of a simulator: a machine, contained in the binary, that keeps the time of
//! its CPUs and decides which task runs.
//!
//! The machine uses one OS thread and switches between tasks inside the calls of [`Machine`].
//! Outside [`run_on`] every operation happens at once, as with a single task. A function without a
//! comment implements the function of the same name in another file of this folder.

use super::access::Access;
use super::effort::Effort;
use super::waited::Waited;
use core::sync::atomic::{AtomicU32, Ordering};
use std::cell::Cell;

/// A simulated machine. Each call may let other tasks run before it returns.
pub trait Machine {
    /// The running task, never 0.
    fn task(&self) -> usize;

    /// The time of the running task's CPU, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// The running task is about to access memory by an atomic operation.
    fn access(&self, address: usize, bytes: usize, access: Access);

    /// The running task is about to access memory by plain loads and stores.
    fn touch(&self, address: usize, bytes: usize, access: Access) {
        self.access(address, bytes, access);
    }

    /// The running task has done work without accesses to shared memory.
    fn effort(&self, _effort: Effort, _count: usize) {}

    /// The running task busily waits for another task: it reads the awaited word again at once.
    fn relax(&self);

    /// Suspends the running task until another task wakes `key`, or the time is over. No other task
    /// runs between the caller's read of its word and this call. No task wakes a `key` of 0.
    fn sleep(&self, key: usize, at_most_ns: Option<u64>);

    /// Wakes up to `most` tasks that sleep on `key`.
    fn wake(&self, key: usize, most: usize);

    /// The running task is about to check whether the lock at this address is free.
    fn lock_wanted(&self, lock: usize) {
        self.access(lock, size_of::<AtomicU32>(), Access::Update);
    }

    /// The running task has found the lock held. A machine with queues of waiting tasks suspends
    /// it; otherwise the lock's own code spins, and sleeps on its word.
    fn lock_waits(&self, _lock: usize) -> Waited {
        Waited::ByItself
    }

    /// The running task has taken the lock.
    fn lock_taken(&self, _lock: usize) {}

    /// The running task releases the lock. Returns whether the machine passed it to a waiting task.
    fn lock_released(&self, lock: usize) -> bool {
        self.access(lock, size_of::<AtomicU32>(), Access::Update);
        false
    }

    /// An array has an entry of `bytes` for each of `frames` frames of memory.
    fn frame_array(&self, _start: usize, _frames: usize, _bytes: usize, _grows_down: bool) {}

    /// A sequence begins on the slot with this control word. A machine may charge its time here,
    /// and nothing for the task's atomics until [`sequence_ends`](Self::sequence_ends).
    fn sequence_begins(&self, _slot: usize) {}

    /// The sequence that the running task began last ends.
    fn sequence_ends(&self) {}
}

std::thread_local! {
    static MACHINE: Cell<Option<&'static dyn Machine>> = const { Cell::new(None) };
    /// True while [`unseen`] runs its body.
    static UNSEEN: Cell<bool> = const { Cell::new(false) };
}

/// Dropping this, also in a panic of the body, removes the machine.
struct Behind;

impl Drop for Behind {
    fn drop(&mut self) {
        MACHINE.set(None);
        UNSEEN.set(false);
    }
}

/// Runs `body` with `machine` as the backend of this OS thread.
///
/// # Panics
/// If the thread has a machine already.
pub fn run_on<R>(machine: &dyn Machine, body: impl FnOnce() -> R) -> R {
    assert!(MACHINE.get().is_none(), "one machine at a time");
    // SAFETY: only the lifetime changes. `Behind` takes the reference out of the thread-local
    // before this function returns or unwinds. Code that copies the reference from there uses it
    // only within a call that `body` makes, and `machine` outlives `body`.
    let machine: &'static dyn Machine = unsafe { std::mem::transmute(machine) };
    MACHINE.set(Some(machine));
    let _behind = Behind;
    body()
}

fn machine() -> Option<&'static dyn Machine> {
    MACHINE.get()
}

/// Reports an operation of an atomic before it happens.
pub(super) fn before(address: usize, bytes: usize, access: Access) {
    if let Some(machine) = machine().filter(|_| !UNSEEN.get()) {
        machine.access(address, bytes, access);
    }
}

/// A weak exchange never fails spuriously here.
pub(super) fn fails_weakly() -> bool {
    false
}

pub(super) fn relax() {
    match machine() {
        Some(machine) => machine.relax(),
        None => std::thread::yield_now(),
    }
}

pub(super) fn task() -> usize {
    machine().map_or(1, |machine| machine.task())
}

pub(super) fn task_number() -> u32 {
    task() as u32
}

pub(super) fn is_alone() -> bool {
    false
}

pub(super) fn now_ns() -> u64 {
    machine().map_or(0, |machine| machine.now_ns())
}

pub(super) fn wall_ns() -> u64 {
    now_ns()
}

pub(super) fn last_tick_ns() -> u64 {
    const TICK_NS: u64 = 4_000_000;
    now_ns() / TICK_NS * TICK_NS
}

fn key(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word) as usize
}

pub(super) fn wait(word: &AtomicU32, expected: u32, at_most_ns: Option<u64>) {
    let Some(machine) = machine() else { return std::thread::yield_now() };
    machine.access(key(word), size_of::<AtomicU32>(), Access::Read);
    if word.load(Ordering::SeqCst) == expected {
        machine.sleep(key(word), at_most_ns);
    }
}

pub(super) fn wake(word: &AtomicU32, most: i32) {
    if let Some(machine) = machine() {
        machine.wake(key(word), most as usize);
    }
}

pub(super) fn sleep(ns: u64) {
    if let Some(machine) = machine() {
        machine.sleep(0, Some(ns));
    }
}

pub(super) fn wake_others(_address: usize, _most: i32) -> usize {
    0
}

pub(super) fn reads_zero(_address: usize) -> Option<bool> {
    None
}

pub(super) fn frame_array(start: usize, frames: usize, bytes: usize, grows_down: bool) {
    if let Some(machine) = machine() {
        machine.frame_array(start, frames, bytes, grows_down);
    }
}

pub(super) fn touch(address: usize, bytes: usize, access: Access) {
    if let Some(machine) = machine() {
        machine.touch(address, bytes, access);
    }
}

pub(super) fn lock_wanted(lock: usize) {
    if let Some(machine) = machine() {
        machine.lock_wanted(lock);
    }
}

pub(super) fn lock_waits(lock: usize) -> Waited {
    machine().map_or(Waited::ByItself, |machine| machine.lock_waits(lock))
}

pub(super) fn lock_taken(lock: usize) {
    if let Some(machine) = machine() {
        machine.lock_taken(lock);
    }
}

pub(super) fn lock_released(lock: usize) -> bool {
    machine().is_some_and(|machine| machine.lock_released(lock))
}

/// See [`super::announce::unseen`]. No other task runs during `body`.
pub(super) fn unseen<T>(body: impl FnOnce() -> T) -> T {
    let before = UNSEEN.replace(true);
    let result = body();
    UNSEEN.set(before);
    result
}

pub(super) fn sequence_begins(slot: usize) {
    if let Some(machine) = machine() {
        machine.sequence_begins(slot);
    }
}

pub(super) fn sequence_ends() {
    if let Some(machine) = machine() {
        machine.sequence_ends();
    }
}

pub(super) fn spend(effort: Effort, count: usize) {
    if let Some(machine) = machine() {
        machine.effort(effort, count);
    }
}
